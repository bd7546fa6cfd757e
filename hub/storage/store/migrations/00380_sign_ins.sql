-- +goose Up
-- When the user of a session proved who they are: by password, passkey or identity
-- provider, or with a link that the hub's own token made on the hub's machine. NULL for a
-- session that was made from an API token, or from another session.
ALTER TABLE sessions ADD COLUMN signed_in_at timestamptz;
-- The hub's own token made it, on the hub's machine.
ALTER TABLE login_codes ADD COLUMN on_machine boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE sessions DROP COLUMN signed_in_at;
ALTER TABLE login_codes DROP COLUMN on_machine;
