-- +goose Up
-- The files that a person left out when they accepted the work of a review: they are
-- restored before its deferred calls are made.
ALTER TABLE inbox_items ADD COLUMN without_paths text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE inbox_items DROP COLUMN without_paths;
