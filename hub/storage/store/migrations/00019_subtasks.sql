-- +goose Up

-- parent_step_id is the step of the parent's that waits for the task, handed_from
-- the task whose work it takes over, and manifest what that one handed over.
-- subtasks counts the tasks that were ever made below a task directly.
ALTER TABLE tasks
    ADD COLUMN parent_step_id text COLLATE "C",
    ADD COLUMN handed_from    text REFERENCES tasks (id),
    ADD COLUMN manifest       jsonb,
    ADD COLUMN subtasks       int NOT NULL DEFAULT 0,
    ADD CHECK (parent_step_id IS NULL OR parent_id IS NOT NULL),
    ADD CHECK ((handed_from IS NULL) = (manifest IS NULL));

CREATE INDEX tasks_below ON tasks (parent_id, created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_live_below ON tasks (parent_id) WHERE parent_id IS NOT NULL AND finished_at IS NULL;
-- A step makes one task; those that it hands its work on to have its step too.
CREATE UNIQUE INDEX tasks_of_step ON tasks (parent_step_id) WHERE parent_step_id IS NOT NULL AND handed_from IS NULL;
CREATE UNIQUE INDEX tasks_handed ON tasks (handed_from) WHERE handed_from IS NOT NULL;
CREATE INDEX steps_waiting_for_tasks ON steps (task_id) WHERE state = 'waiting' AND tool IN ('create_subtask', 'delegate');
