-- +goose Up
-- The last task that counted as a failure of the agent, so that one task counts once, and
-- the task that its suspension came of.
ALTER TABLE agents ADD COLUMN last_failed_task text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN suspended_by text COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE agents DROP COLUMN last_failed_task, DROP COLUMN suspended_by;
