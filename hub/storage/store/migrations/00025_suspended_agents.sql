-- +goose Up

ALTER TABLE agents
    -- Since when status is what it is.
    ADD COLUMN status_at timestamptz NOT NULL DEFAULT now(),
    -- Runs that failed in a row, since a person last looked.
    ADD COLUMN failures int NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE agents DROP COLUMN failures, DROP COLUMN status_at;
