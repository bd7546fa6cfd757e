-- +goose Up

-- Made by the agent's persona, which changes and deletes it too.
ALTER TABLE triggers ADD COLUMN declared boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE triggers DROP COLUMN declared;
