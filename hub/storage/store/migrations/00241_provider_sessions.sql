-- +goose Up

-- The identity provider's name for the login there that a session came from (sid);
-- empty where it gave none.
ALTER TABLE sessions ADD COLUMN oidc_sid text NOT NULL DEFAULT '';
CREATE INDEX sessions_of_provider ON sessions (org_id, oidc_sid) WHERE ended_at IS NULL AND oidc_sid <> '';

-- +goose Down

DROP INDEX sessions_of_provider;
ALTER TABLE sessions DROP COLUMN oidc_sid;
