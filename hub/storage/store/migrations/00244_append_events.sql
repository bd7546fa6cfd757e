-- +goose Up
-- Numbers and stores a task's next events and returns the last number. The lock on the
-- head's row orders concurrent writers. Each payload gets the members of extra, which
-- only the caller's statement knows.
-- +goose StatementBegin
CREATE FUNCTION append_events(task text, org text, attempt int, correlation text, types text[], actor_kinds text[],
                              actor_ids text[], payloads text[], extra jsonb) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    last   bigint;
    stands xid8;
BEGIN
    INSERT INTO event_heads AS h (task_id, org_id, seq, xid) VALUES (task, org, cardinality(types), pg_current_xact_id())
    ON CONFLICT (task_id) DO UPDATE SET seq = h.seq + excluded.seq, xid = greatest(h.xid, excluded.xid)
    RETURNING h.seq, h.xid INTO last, stands;
    INSERT INTO events (xid, org_id, task_id, seq, type, actor_kind, actor_id, attempt, correlation_id, payload)
    SELECT stands, org, task, last - cardinality(types) + n, types[n], actor_kinds[n], actor_ids[n], append_events.attempt, correlation,
           payloads[n]::jsonb || extra
    FROM generate_subscripts(types, 1) AS n;
    RETURN last;
END
$$;
-- +goose StatementEnd
-- As above, with one actor for all events.
-- +goose StatementBegin
CREATE FUNCTION append_events_of(task text, org text, attempt int, correlation text, actor_kind text, actor_id text,
                                 types text[], payloads text[], extra jsonb) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT append_events(task, org, attempt, correlation, types, array_fill(actor_kind, ARRAY[cardinality(types)]),
                         array_fill(actor_id, ARRAY[cardinality(types)]), payloads, extra)
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION append_events_of, append_events;
