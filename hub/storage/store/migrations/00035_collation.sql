-- +goose Up

-- Names are compared byte by byte, on both sides: an index in one collation is
-- of no use to a comparison in another, so that what belongs to a task was
-- searched from end to end.

-- +goose StatementBegin
DO $$
DECLARE
    change text;
BEGIN
    FOR change IN
        SELECT format('ALTER TABLE %I.%I %s', table_schema, table_name,
                      string_agg(format('ALTER COLUMN %I TYPE text COLLATE "C"', column_name), ', ' ORDER BY ordinal_position))
        FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
        WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
          AND data_type = 'text' AND collation_name IS NULL
          AND (column_name IN ('id', 'depends_on', 'handed_from') OR column_name LIKE '%\_id')
        GROUP BY table_schema, table_name
    LOOP
        EXECUTE change;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- A function in SQL is planned at every call, which costs more than running it;
-- one in PL/pgSQL once a connection.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION held(org text, agent text, trigger_ text, lineage text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM holds h WHERE h.org_id = org AND h.released_at IS NULL
          AND (h.scope = 'organisation' OR h.scope = 'agent' AND h.object_id = agent
               OR h.scope = 'trigger' AND h.object_id = trigger_ OR h.scope = 'lineage' AND h.object_id = lineage));
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_horizon() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - coalesce(max(age(backend_xid)), 0))::text
            FROM pg_stat_get_activity(NULL) -- what the view pg_stat_activity reads
            WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND backend_xid IS NOT NULL);
END
$$;
-- +goose StatementEnd

-- +goose Down

-- The names keep their collation.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_horizon() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - coalesce(max(age(backend_xid)), 0))::text
    FROM pg_stat_get_activity(NULL) -- what the view pg_stat_activity reads
    WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND backend_xid IS NOT NULL
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION held(org text, agent text, trigger_ text, lineage text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM holds h WHERE h.org_id = org AND h.released_at IS NULL
          AND (h.scope = 'organisation' OR h.scope = 'agent' AND h.object_id = agent
               OR h.scope = 'trigger' AND h.object_id = trigger_ OR h.scope = 'lineage' AND h.object_id = lineage))
$$;
-- +goose StatementEnd
