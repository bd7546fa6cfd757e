-- +goose Up

-- A login by OAuth in the place of a key: what is sealed are its tokens, and
-- expires_at is the end of the one that calls are made with.
ALTER TABLE credentials
    ADD COLUMN login        boolean NOT NULL DEFAULT false,
    -- When its token was renewed last.
    ADD COLUMN refreshed_at timestamptz;

-- +goose Down
ALTER TABLE credentials DROP COLUMN refreshed_at, DROP COLUMN login;
