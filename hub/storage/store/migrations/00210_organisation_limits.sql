-- +goose Up

-- What a hub's operator lets an organisation have: of each jail at most so much,
-- 0 for what nodes and personas say; and how long after its end a task can be
-- undone, NULL for what the hub says.
ALTER TABLE organisations
    ADD COLUMN jail_cpu_millis      bigint NOT NULL DEFAULT 0,
    ADD COLUMN jail_memory_bytes    bigint NOT NULL DEFAULT 0,
    ADD COLUMN jail_pids            bigint NOT NULL DEFAULT 0,
    ADD COLUMN jail_workspace_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN undo_window_seconds  bigint;

-- +goose Down

ALTER TABLE organisations
    DROP COLUMN jail_cpu_millis, DROP COLUMN jail_memory_bytes, DROP COLUMN jail_pids, DROP COLUMN jail_workspace_bytes,
    DROP COLUMN undo_window_seconds;
