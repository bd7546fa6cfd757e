-- +goose Up

ALTER TABLE organisations
    -- The age at which people's tokens end; NULL for none.
    ADD COLUMN max_token_ttl interval CHECK (max_token_ttl > interval '0'),
    -- How often people of the identity provider have to log in there; NULL for as
    -- often as the hub has it.
    ADD COLUMN login_within interval CHECK (login_within > interval '0');

-- When the identity provider last vouched for somebody who is of one.
ALTER TABLE users ADD COLUMN vouched_at timestamptz;
UPDATE users SET vouched_at = now() WHERE oidc_subject <> '';
ALTER TABLE users ADD CHECK ((oidc_subject = '') = (vouched_at IS NULL));

-- Whether somebody may be let in as far as the identity provider goes: it has
-- vouched for them lately, or they are of none.
-- +goose StatementBegin
CREATE FUNCTION vouched(of_org text, at timestamptz, unless_set interval) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT at IS NULL OR at > now() - coalesce((SELECT o.login_within FROM organisations o WHERE o.id = of_org), unless_set)
$$;
-- +goose StatementEnd

-- Whether a hub keeps a token in its data folder. Whoever reads that needs no token.
ALTER TABLE api_tokens ADD COLUMN local boolean NOT NULL GENERATED ALWAYS AS (created_by = 'the hub' AND name LIKE 'file %') STORED;

-- Whether a token is not older than its organisation has them.
-- +goose StatementBegin
CREATE FUNCTION young(t api_tokens) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT t.kind <> 'user' OR t.local
        OR NOT EXISTS (SELECT 1 FROM organisations o WHERE o.id = t.org_id AND t.created_at <= now() - o.max_token_ttl)
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION young(api_tokens);
DROP FUNCTION vouched(text, timestamptz, interval);
ALTER TABLE api_tokens DROP COLUMN local;
ALTER TABLE users DROP COLUMN vouched_at;
ALTER TABLE organisations DROP COLUMN max_token_ttl, DROP COLUMN login_within;
