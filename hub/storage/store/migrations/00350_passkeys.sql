-- +goose Up
-- Credentials of WebAuthn with which users log in, and prove decisions. Only public keys
-- are kept.
CREATE TABLE passkeys (
    id            text COLLATE "C" PRIMARY KEY,
    org_id        text COLLATE "C" NOT NULL REFERENCES organisations (id),
    user_id       text COLLATE "C" NOT NULL REFERENCES users (id),
    name          text COLLATE "C" NOT NULL CHECK (name <> ''),
    -- The host that it belongs to. After a change of the public URL it cannot be used.
    relying_party text COLLATE "C" NOT NULL,
    credential_id bytea NOT NULL UNIQUE,
    -- In COSE.
    public_key    bytea NOT NULL,
    -- Flags, counter and transports, as the library has them.
    record        jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    used_at       timestamptz
);
CREATE INDEX passkeys_of_user ON passkeys (org_id, user_id, created_at);

-- Challenges that wait for what a browser makes of them. Each is deleted by its first use.
CREATE TABLE passkey_challenges (
    id         text COLLATE "C" PRIMARY KEY,
    purpose    text NOT NULL CHECK (purpose IN ('register', 'login', 'proof')),
    -- NULL for logins, whose user is not known yet.
    org_id     text COLLATE "C" REFERENCES organisations (id),
    user_id    text COLLATE "C" REFERENCES users (id),
    -- What the library keeps of a ceremony.
    session    jsonb NOT NULL,
    -- The statement that a proof signs the digest of, byte by byte; empty for others.
    statement  text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL,
    CHECK ((purpose = 'login') = (user_id IS NULL)),
    CHECK ((purpose = 'proof') = (statement <> ''))
);
CREATE INDEX passkey_challenges_by_age ON passkey_challenges (expires_at);

-- What takes a passkey in an organisation.
ALTER TABLE organisations ADD COLUMN dangerous_approvals text NOT NULL DEFAULT '' CHECK (dangerous_approvals IN ('', 'passkey'));

ALTER TABLE sessions DROP CONSTRAINT sessions_method_check;
ALTER TABLE sessions ADD CONSTRAINT sessions_method_check CHECK (method IN ('token', 'password', 'code', 'oidc', 'passkey'));

-- +goose Down
UPDATE sessions SET method = 'password' WHERE method = 'passkey';
ALTER TABLE sessions DROP CONSTRAINT sessions_method_check;
ALTER TABLE sessions ADD CONSTRAINT sessions_method_check CHECK (method IN ('token', 'password', 'code', 'oidc'));
ALTER TABLE organisations DROP COLUMN dangerous_approvals;
DROP TABLE passkey_challenges, passkeys;
