-- +goose Up
-- How an organisation's nodes reach a registry of container images: credentials for
-- pulls, and a mirror that is asked first.
CREATE TABLE registries (
    org_id   text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- The registry's host, with a port if it has one.
    host     text COLLATE "C" NOT NULL CHECK (host <> ''),
    username text NOT NULL,
    -- The password or token; NULL for none.
    sealed   bytea,
    -- Host of the mirror, with a port and a path if it has them; empty for none.
    mirror   text NOT NULL,
    set_by   text NOT NULL,
    set_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, host)
);

-- Which images an organisation's agents may use. Without a row: all.
CREATE TABLE image_rules (
    org_id         text COLLATE "C" PRIMARY KEY REFERENCES organisations (id),
    -- Repositories, or all below a path with /* at the end; empty for all.
    allow          text[] NOT NULL,
    -- A persona must name the image's digest.
    require_digest boolean NOT NULL,
    set_by         text NOT NULL,
    set_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- +goose Down
DROP TABLE image_rules, registries;
