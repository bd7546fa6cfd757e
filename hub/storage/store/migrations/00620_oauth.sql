-- +goose Up
-- Programs that people connect to the MCP server by OAuth. A connected program is a row of
-- api_tokens whose hash changes with each refresh.

-- Programs that have registered themselves. Anybody may, so one that nobody connects is
-- deleted after a day.
CREATE TABLE oauth_clients (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    redirect_uris text[] NOT NULL CHECK (cardinality(redirect_uris) BETWEEN 1 AND 10),
    created_at    timestamptz NOT NULL DEFAULT now(),
    -- When a person last connected it.
    used_at       timestamptz
);
CREATE INDEX oauth_clients_unused ON oauth_clients (created_at) WHERE used_at IS NULL;

-- What a person has allowed, until the program has its first token.
CREATE TABLE oauth_codes (
    hash         bytea PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL REFERENCES organisations (id),
    user_id      text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    user_name    text COLLATE "C" NOT NULL,
    client_id    text COLLATE "C" NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    redirect_uri text NOT NULL,
    resource     text NOT NULL,
    challenge    text NOT NULL,
    scope        text NOT NULL CHECK (scope IN ('read', 'run', 'decide')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    used_at      timestamptz,
    -- The token that it was exchanged for: a second exchange revokes it.
    token_id     text COLLATE "C" REFERENCES api_tokens (id)
);
CREATE INDEX oauth_codes_old ON oauth_codes (created_at);

CREATE TABLE oauth_refresh_tokens (
    hash       bytea PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    user_id    text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    -- The program's token, which it renews.
    token_id   text COLLATE "C" NOT NULL REFERENCES api_tokens (id),
    client_id  text COLLATE "C" NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    resource   text NOT NULL,
    scope      text NOT NULL CHECK (scope IN ('read', 'run', 'decide')),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- A second use revokes the token: one of the two users has stolen it.
    used_at    timestamptz
);
CREATE INDEX oauth_refresh_tokens_old ON oauth_refresh_tokens (created_at);

-- +goose Down
DROP TABLE oauth_refresh_tokens, oauth_codes, oauth_clients;
