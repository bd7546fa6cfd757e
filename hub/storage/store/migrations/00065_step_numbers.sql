-- +goose Up

-- A step counts on from the last one of its task, which the steps themselves
-- tell: the wide row of the task is not written for each.
ALTER TABLE tasks DROP COLUMN step_count;

-- +goose Down
ALTER TABLE tasks ADD COLUMN step_count int NOT NULL DEFAULT 0;
UPDATE tasks SET step_count = coalesce((SELECT max(s.number) FROM steps s WHERE s.task_id = tasks.id), 0);
