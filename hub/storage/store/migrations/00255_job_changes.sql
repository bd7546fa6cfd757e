-- +goose Up
-- The job that changed something after the step that started it; empty for the step itself.
ALTER TABLE step_changes
    ADD COLUMN job_id text COLLATE "C" NOT NULL DEFAULT '',
    DROP CONSTRAINT step_changes_pkey,
    ADD PRIMARY KEY (step_id, job_id);

-- +goose Down
DELETE FROM step_changes WHERE job_id <> '';
ALTER TABLE step_changes
    DROP CONSTRAINT step_changes_pkey,
    DROP COLUMN job_id,
    ADD PRIMARY KEY (step_id);
