-- +goose Up

-- The spec of a destination, of which nothing is open any more to agents of some names. A
-- choice of events that names them names instead, so that it does not become one of all
-- agents' events.
-- +goose StatementBegin
CREATE FUNCTION destination_without(spec jsonb, names text[], instead text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN closed->'forAgents'->'agents' = '[]' THEN closed - 'forAgents' ELSE closed END FROM (SELECT jsonb_set(jsonb_set(spec,
        '{agents}', coalesce((SELECT jsonb_agg(CASE WHEN x = ANY (names) THEN instead ELSE x END) FROM jsonb_array_elements_text(spec->'agents') AS x), '[]'), false),
        '{forAgents,agents}', coalesce((SELECT jsonb_agg(x) FROM jsonb_array_elements_text(spec->'forAgents'->'agents') AS x WHERE x <> ALL (names)), '[]'), false)
        AS closed) AS s
$$;
-- +goose StatementEnd

-- The spec of a destination in which an agent has another name.
-- +goose StatementBegin
CREATE FUNCTION destination_renamed(spec jsonb, old_name text, new_name text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_set(jsonb_set(spec,
        '{agents}', coalesce((SELECT jsonb_agg(CASE WHEN x = old_name THEN new_name ELSE x END) FROM jsonb_array_elements_text(spec->'agents') AS x), '[]'), false),
        '{forAgents,agents}', coalesce((SELECT jsonb_agg(CASE WHEN x = old_name THEN new_name ELSE x END) FROM jsonb_array_elements_text(spec->'forAgents'->'agents') AS x), '[]'), false)
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION destination_renamed(jsonb, text, text);
DROP FUNCTION destination_without(jsonb, text[], text);
