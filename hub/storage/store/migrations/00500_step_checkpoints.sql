-- +goose Up
-- Why the point before a call is a checkpoint: "risk" for one that is dangerous or that a
-- person is asked about, "step" for every call that is not safe; empty if it is none.
ALTER TABLE steps
    ADD COLUMN checkpoint text NOT NULL DEFAULT '' CHECK (checkpoint IN ('', 'risk', 'step'));
ALTER TABLE checkpoints
    DROP CONSTRAINT checkpoints_reason_check,
    ADD CONSTRAINT checkpoints_reason_check CHECK (reason IN ('auto', 'agent', 'manual', 'error', 'phase', 'risk', 'step'));

-- +goose Down
UPDATE checkpoints SET reason = 'manual' WHERE reason IN ('risk', 'step');
ALTER TABLE checkpoints
    DROP CONSTRAINT checkpoints_reason_check,
    ADD CONSTRAINT checkpoints_reason_check CHECK (reason IN ('auto', 'agent', 'manual', 'error', 'phase'));
ALTER TABLE steps DROP COLUMN checkpoint;
