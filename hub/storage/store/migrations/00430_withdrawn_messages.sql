-- +goose Up
-- When a person took the message back, before the model got it.
ALTER TABLE task_messages ADD COLUMN withdrawn_at timestamptz CHECK (withdrawn_at IS NULL OR after_turn IS NULL);

-- +goose Down
DELETE FROM task_messages WHERE withdrawn_at IS NOT NULL;
ALTER TABLE task_messages DROP COLUMN withdrawn_at;
