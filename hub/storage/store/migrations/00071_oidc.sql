-- +goose Up

-- Who somebody is at the organisation's OIDC provider; empty for whoever is not
-- of one. Names change there, subjects do not.
ALTER TABLE users ADD COLUMN oidc_issuer text NOT NULL DEFAULT '', ADD COLUMN oidc_subject text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_of_oidc ON users (org_id, oidc_issuer, oidc_subject) WHERE oidc_subject <> '';

-- +goose Down

ALTER TABLE users DROP COLUMN oidc_issuer, DROP COLUMN oidc_subject;
