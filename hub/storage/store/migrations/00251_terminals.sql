-- +goose Up
-- A job that runs on a terminal: it takes keys, and has a screen.
ALTER TABLE jobs ADD COLUMN terminal boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE jobs DROP COLUMN terminal;
