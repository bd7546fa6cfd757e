-- +goose Up
-- The subtask whose end a call of wait is for; empty for none.
ALTER TABLE waits ADD COLUMN child_id text COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE waits DROP COLUMN child_id;
