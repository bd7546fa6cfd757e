-- +goose Up

-- The keys that seal, themselves encrypted with the key that --keyset-key names:
-- one row for the installation.
CREATE TABLE keysets (
    single         boolean PRIMARY KEY DEFAULT true CHECK (single),
    version        bigint NOT NULL CHECK (version > 0),
    keys           bytea NOT NULL,
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Since when a new key seals while there are old ones.
    rotating_since timestamptz,
    rotated_by     text NOT NULL DEFAULT '',
    -- Whose administrator asked for it.
    rotated_org    text COLLATE "C" REFERENCES organisations (id),
    CHECK (rotating_since IS NULL OR rotated_org IS NOT NULL)
);

-- +goose Down
DROP TABLE keysets;
