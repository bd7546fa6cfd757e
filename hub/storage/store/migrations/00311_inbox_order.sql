-- +goose Up

-- The place of an item in the inbox, in microseconds: first what expires, by the time
-- left; then what waits without end, the longest wait first; then what is closed, the
-- newest first.
ALTER TABLE inbox_items
    ADD COLUMN place bigint NOT NULL GENERATED ALWAYS AS (CASE
        WHEN state <> 'open' THEN 300000000000000000 - (extract(epoch FROM answered_at AT TIME ZONE 'UTC') * 1000000)::bigint
        WHEN expires_at IS NULL THEN 100000000000000000 + (extract(epoch FROM asked_at AT TIME ZONE 'UTC') * 1000000)::bigint
        ELSE (extract(epoch FROM expires_at AT TIME ZONE 'UTC') * 1000000)::bigint END) STORED,
    -- The same for approvals of calls that look alike: of one shape, or with the same
    -- arguments where the tool's calls have none. Empty for other kinds.
    ADD COLUMN alike text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE
        WHEN kind = 'approval' THEN md5(agent_id || chr(10) || tool || chr(10) || CASE WHEN shape <> '' THEN shape ELSE arguments::text END)
        ELSE '' END) STORED;
CREATE INDEX inbox_items_place ON inbox_items (org_id, place, id);
CREATE INDEX inbox_items_alike ON inbox_items (org_id, alike) WHERE state = 'open' AND alike <> '';

-- Reports whether something dangerous was recognised in a call, or its tool is of the
-- dangerous category.
-- +goose StatementBegin
CREATE FUNCTION inbox_dangerous(category text, decision jsonb) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$
    SELECT category = 'dangerous' OR coalesce(jsonb_typeof(decision -> 'dangers') = 'array' AND jsonb_array_length(decision -> 'dangers') > 0, false)
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION inbox_dangerous;
DROP INDEX inbox_items_place, inbox_items_alike;
ALTER TABLE inbox_items DROP COLUMN place, DROP COLUMN alike;
