-- +goose Up

-- What the doctor looks at of the server and this database, as one object: "facts",
-- "long" (transactions that are open for more than five minutes) and "bloated" (tables
-- with more dead rows than live ones, by PostgreSQL's own counters).
-- +goose StatementBegin
CREATE FUNCTION doctor_database() RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_build_object(
        'facts', jsonb_build_object(
            'version', current_setting('server_version'), 'version_num', current_setting('server_version_num')::int,
            'now', clock_timestamp(), 'max_connections', current_setting('max_connections')::int,
            'connections', (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
            'bytes', pg_database_size(current_database()),
            'fsync', current_setting('fsync'), 'full_page_writes', current_setting('full_page_writes'), 'autovacuum', current_setting('autovacuum')),
        'long', coalesce((SELECT jsonb_agg(x) FROM (
            SELECT pid, coalesce(application_name, '') AS application, coalesce(state, '') AS state,
                   extract(epoch FROM clock_timestamp() - xact_start)::bigint AS seconds
            FROM pg_stat_activity
            WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '5 minutes' AND pid <> pg_backend_pid()
              AND application_name NOT IN ('pg_dump', 'pg_restore') AND backend_type = 'client backend'
            ORDER BY xact_start LIMIT 5) x), '[]'),
        'bloated', coalesce((SELECT jsonb_agg(x) FROM (
            SELECT relname AS name, n_live_tup AS live, n_dead_tup AS dead, pg_table_size(relid) AS bytes
            FROM pg_stat_user_tables
            WHERE n_dead_tup > 100000 AND n_dead_tup > n_live_tup
            ORDER BY n_dead_tup DESC LIMIT 5) x), '[]'))
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION doctor_database();
