-- +goose Up

ALTER TABLE users
    -- bcrypt's; empty for somebody who logs in otherwise.
    ADD COLUMN password_hash text NOT NULL DEFAULT '',
    ADD COLUMN disabled_at timestamptz;

-- What a token may do less than its user: {"role": …, "read_only": …, "services": […]}.
ALTER TABLE api_tokens ADD COLUMN scope jsonb NOT NULL DEFAULT '{}';

-- Logins. Only the hash of what the cookie holds is kept. A session that was
-- made with a token ends with it, and has its scope.
CREATE TABLE sessions (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    user_id    text COLLATE "C" NOT NULL REFERENCES users (id),
    token_id   text COLLATE "C" REFERENCES api_tokens (id),
    hash       bytea NOT NULL UNIQUE,
    method     text NOT NULL CHECK (method IN ('token', 'password', 'code', 'oidc')),
    scope      jsonb NOT NULL DEFAULT '{}',
    address    text NOT NULL,
    user_agent text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz
);
CREATE INDEX sessions_of_user ON sessions (org_id, user_id) WHERE ended_at IS NULL;
CREATE INDEX sessions_expired ON sessions (expires_at);

-- Codes for one login each, deleted by it.
CREATE TABLE login_codes (
    hash       bytea PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    user_id    text COLLATE "C" NOT NULL REFERENCES users (id),
    token_id   text COLLATE "C" REFERENCES api_tokens (id),
    scope      jsonb NOT NULL DEFAULT '{}',
    expires_at timestamptz NOT NULL
);

-- Logins that were tried, by a hash of the address or the account.
CREATE TABLE login_attempts (
    key      bytea PRIMARY KEY,
    attempts int NOT NULL,
    since    timestamptz NOT NULL
);

-- +goose Down

DROP TABLE login_attempts, login_codes, sessions;
ALTER TABLE api_tokens DROP COLUMN scope;
ALTER TABLE users DROP COLUMN password_hash, DROP COLUMN disabled_at;
