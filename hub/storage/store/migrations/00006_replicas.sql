-- +goose Up

-- Hub processes that run. address is the host:port of the replica's edge, as
-- the others reach it. A row that was not touched for a while is of a process
-- that died.
CREATE TABLE hub_replicas (
    id         text COLLATE "C" PRIMARY KEY,
    address    text NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    touched_at timestamptz NOT NULL DEFAULT now()
);

-- Tasks whose events were deleted, and where the last of them was: a cursor
-- before that place has missed some.
CREATE TABLE pruned_events (
    task_id   text COLLATE "C" PRIMARY KEY,
    org_id    text NOT NULL,
    last_xid  xid8 NOT NULL,
    last_id   bigint NOT NULL,
    events    bigint NOT NULL CHECK (events > 0),
    pruned_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX pruned_events_order ON pruned_events (org_id, last_xid DESC, last_id DESC);
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;

-- events.xid is where an event stands in the commit order. It is its
-- transaction's id, or that of the task's event before where that is higher: a
-- transaction may have its id before another one's, and write to the task after
-- it. What is below event_horizon() is committed either way.
ALTER TABLE tasks ADD COLUMN event_xid xid8 NOT NULL DEFAULT '0';

-- The newest migration that was applied.
-- +goose StatementBegin
CREATE FUNCTION schema_version() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT max(version_id) FROM goose_db_version WHERE is_applied);
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION schema_version;
ALTER TABLE tasks DROP COLUMN event_xid;
DROP INDEX tasks_finished;
DROP TABLE pruned_events, hub_replicas;
