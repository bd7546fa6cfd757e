-- +goose Up
-- The paths that an undo is of, with what is below them; none for all.
ALTER TABLE undos ADD COLUMN paths text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE undos DROP COLUMN paths;
