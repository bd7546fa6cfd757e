-- +goose Up
-- The certificate authorities by which the egress proxy of a node stands for the hosts of a
-- jail's credentials and of its rules by method and path. A certificate is limited to those
-- hosts; another set of hosts gets another authority, and those before stay trusted in the
-- jail.
CREATE TABLE jail_authorities (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL REFERENCES organisations (id),
    jail_id     text COLLATE "C" NOT NULL,
    -- In PEM.
    certificate text NOT NULL,
    -- The private key, PKCS #8 in PEM.
    sealed      bytea NOT NULL,
    hosts       text[] NOT NULL,
    expires_at  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX jail_authorities_of_jail ON jail_authorities (org_id, jail_id, created_at DESC);
CREATE INDEX jail_authorities_expired ON jail_authorities (expires_at);

-- +goose Down
DROP TABLE jail_authorities;
