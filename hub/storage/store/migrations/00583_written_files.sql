-- +goose Up

-- How many files a run has written at most, and the size in bytes of the largest: the sum over
-- its steps, replaced by the exact count of the node when a limit would be reached.
ALTER TABLE tasks
    ADD COLUMN written_files bigint NOT NULL DEFAULT 0,
    ADD COLUMN largest_file  bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE tasks DROP COLUMN largest_file, DROP COLUMN written_files;
