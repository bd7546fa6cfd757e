-- +goose Up
-- A job that goes on when its task ends, unless that is cancelled or killed.
ALTER TABLE jobs ADD COLUMN keep boolean NOT NULL DEFAULT false;
CREATE INDEX jobs_kept ON jobs (jail_id) WHERE keep AND state = 'running';

-- +goose Down
DROP INDEX jobs_kept;
ALTER TABLE jobs DROP COLUMN keep;
