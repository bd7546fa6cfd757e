-- +goose Up
-- The name that the agent gave a checkpoint; empty for none.
ALTER TABLE checkpoints
    ADD COLUMN name text NOT NULL DEFAULT '',
    DROP CONSTRAINT checkpoints_reason_check,
    ADD CONSTRAINT checkpoints_reason_check CHECK (reason IN ('auto', 'agent', 'manual', 'error', 'phase'));

-- +goose Down
UPDATE checkpoints SET reason = 'manual' WHERE reason = 'agent';
ALTER TABLE checkpoints
    DROP COLUMN name,
    DROP CONSTRAINT checkpoints_reason_check,
    ADD CONSTRAINT checkpoints_reason_check CHECK (reason IN ('auto', 'manual', 'error', 'phase'));
