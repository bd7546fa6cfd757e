-- +goose Up
-- When it was stored that a job has ended; ended_at is the node's time. NULL for those that ended
-- before there was this.
ALTER TABLE jobs ADD COLUMN stored_at timestamptz;

-- +goose Down
ALTER TABLE jobs DROP COLUMN stored_at;
