-- +goose Up

ALTER TABLE tasks
    -- Whose turn a task uses while it is queued: that of the one who submitted
    -- it, or of the task that a person put it before; empty for nobody's, which
    -- goes before all others of its priority.
    ADD COLUMN share       text COLLATE "C" NOT NULL DEFAULT '',
    -- Its place among the tasks of that share: the earliest first. Where a
    -- person moved tasks to one place, the last one moved goes first.
    ADD COLUMN place       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN moved_at    timestamptz,
    -- A queued task is not looked at before, a waiting one is queued then.
    ADD COLUMN not_before  timestamptz,
    -- Transient failures in a row without an iteration between them.
    ADD COLUMN failures    int NOT NULL DEFAULT 0,
    -- How many tasks were made to wait for this one.
    ADD COLUMN dependents  int NOT NULL DEFAULT 0,
    ADD COLUMN context     text NOT NULL DEFAULT '',
    -- What was said before: [{"role", "text"}].
    ADD COLUMN conversation jsonb NOT NULL DEFAULT '[]',
    -- The person who is to do it, or to decide on it; empty for none. The agent
    -- that is to do it is agent_id, empty for none.
    ADD COLUMN assignee    text NOT NULL DEFAULT '',
    ADD COLUMN assigned_by text NOT NULL DEFAULT '',
    ADD COLUMN assigned_at timestamptz,
    ADD CHECK (state <> 'queued' OR agent_id <> '');

UPDATE tasks SET share = created_by, place = coalesce(queued_at, created_at);

DROP INDEX tasks_queue;
CREATE INDEX tasks_queue ON tasks (org_id, share, priority DESC, place, moved_at DESC NULLS LAST, id)
    WHERE state = 'queued' AND admitted_at IS NULL;
CREATE INDEX tasks_due ON tasks (not_before) WHERE state = 'waiting' AND not_before IS NOT NULL;
-- How long tasks took lately.
CREATE INDEX tasks_pace ON tasks (org_id, finished_at DESC) WHERE state = 'succeeded' AND started_at IS NOT NULL;

-- When a share last had its turn.
CREATE TABLE queue_turns (
    org_id    text NOT NULL,
    share     text COLLATE "C" NOT NULL,
    served_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, share)
) WITH (fillfactor = 60);

CREATE TABLE task_dependencies (
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks (id),
    depends_on text COLLATE "C" NOT NULL REFERENCES tasks (id),
    org_id     text NOT NULL,
    PRIMARY KEY (task_id, depends_on),
    CHECK (task_id <> depends_on)
);
CREATE INDEX task_dependencies_of ON task_dependencies (depends_on);

-- Pressure says why nothing new may start there; empty for nothing.
ALTER TABLE nodes ADD COLUMN pressure text NOT NULL DEFAULT '';
ALTER TABLE workers
    ADD COLUMN pressure     text NOT NULL DEFAULT '',
    ADD COLUMN drained_at   timestamptz,
    ADD COLUMN drained_by   text NOT NULL DEFAULT '',
    ADD COLUMN drain_reason text NOT NULL DEFAULT '',
    ADD CHECK ((drained_at IS NULL) = (drained_by = ''));

-- A person's own task is done by hand.
INSERT INTO transitions (object, from_state, to_state) VALUES ('task', 'pending', 'succeeded');

-- +goose Down
DELETE FROM transitions WHERE object = 'task' AND from_state = 'pending' AND to_state = 'succeeded';
ALTER TABLE workers DROP COLUMN pressure, DROP COLUMN drained_at, DROP COLUMN drained_by, DROP COLUMN drain_reason;
ALTER TABLE nodes DROP COLUMN pressure;
DROP TABLE task_dependencies, queue_turns;
DROP INDEX tasks_pace, tasks_due, tasks_queue;
ALTER TABLE tasks DROP COLUMN share, DROP COLUMN place, DROP COLUMN moved_at, DROP COLUMN not_before, DROP COLUMN failures,
    DROP COLUMN dependents, DROP COLUMN context, DROP COLUMN conversation, DROP COLUMN assignee, DROP COLUMN assigned_by,
    DROP COLUMN assigned_at;
CREATE INDEX tasks_queue ON tasks (org_id, priority DESC, queued_at, id) WHERE state = 'queued' AND admitted_at IS NULL;
