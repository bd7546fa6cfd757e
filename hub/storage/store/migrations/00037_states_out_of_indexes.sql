-- +goose Up

-- A task that changes its state stays where it is on its page, unless an index
-- looks at a column that changes: else each move makes a new entry in every
-- index of the table. So indexes look at what a state means to them, which
-- changes less often.
ALTER TABLE tasks
    -- It waits for its admission.
    ADD COLUMN in_queue boolean NOT NULL GENERATED ALWAYS AS (state = 'queued' AND admitted_at IS NULL) STORED,
    -- It began, holds no slot and keeps its workspace.
    ADD COLUMN keeps_jail boolean NOT NULL GENERATED ALWAYS AS (
        started_at IS NOT NULL AND admitted_at IS NULL
        AND state IN ('queued', 'waiting', 'awaiting_approval', 'needs_input', 'paused')) STORED;
DROP INDEX tasks_queue, tasks_keeping;
CREATE INDEX tasks_queue ON tasks (org_id, share, priority DESC, place, moved_at DESC NULLS LAST, id) WHERE in_queue;
CREATE INDEX tasks_keeping ON tasks (org_id) WHERE keeps_jail;

-- +goose Down
DROP INDEX tasks_queue, tasks_keeping;
CREATE INDEX tasks_keeping ON tasks (org_id)
    WHERE started_at IS NOT NULL AND admitted_at IS NULL
      AND state IN ('queued', 'waiting', 'awaiting_approval', 'needs_input', 'paused');
CREATE INDEX tasks_queue ON tasks (org_id, share, priority DESC, place, moved_at DESC NULLS LAST, id)
    WHERE state = 'queued' AND admitted_at IS NULL;
ALTER TABLE tasks DROP COLUMN in_queue, DROP COLUMN keeps_jail;
