-- +goose Up

-- How an organisation reaches its model providers. The key is sealed, and is
-- gone with its row.
CREATE TABLE credentials (
    org_id       text NOT NULL REFERENCES organisations (id),
    provider     text NOT NULL,
    base_url     text NOT NULL CHECK (base_url <> ''),
    -- NULL for a server that wants no key.
    sealed       bytea,
    -- The key's last characters, for people to tell keys apart.
    hint         text NOT NULL,
    connected_by text NOT NULL,
    connected_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    -- Since when the provider refuses the key.
    refused_at   timestamptz,
    PRIMARY KEY (org_id, provider)
);

-- Prices of models that the shipped table does not have, or that the operator
-- knows better: micro-dollars for a million tokens.
CREATE TABLE prices (
    org_id      text NOT NULL REFERENCES organisations (id),
    provider    text NOT NULL,
    model       text NOT NULL CHECK (model <> ''),
    input       bigint NOT NULL CHECK (input >= 0),
    output      bigint NOT NULL CHECK (output >= 0),
    cache_read  bigint NOT NULL CHECK (cache_read >= 0),
    cache_write bigint NOT NULL CHECK (cache_write >= 0),
    set_by      text NOT NULL,
    set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, provider, model)
);

-- +goose Down
DROP TABLE prices, credentials;
