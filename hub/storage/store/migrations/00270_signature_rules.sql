-- +goose Up
-- Who must have signed the images of some repositories. An image that no rule matches
-- needs no signature.
CREATE TABLE signature_rules (
    org_id          text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- A repository, or all below a path with /* at the end.
    pattern         text COLLATE "C" NOT NULL CHECK (pattern <> ''),
    -- Public keys in PEM, of which one must have signed; empty if an identity must have.
    public_keys     text NOT NULL,
    -- The issuer of the identity, and the identity or an expression that it matches.
    issuer          text NOT NULL,
    identity        text NOT NULL,
    identity_regexp text NOT NULL,
    -- sigstore's TrustedRoot in JSON: authorities and transparency logs.
    trusted_root    bytea NOT NULL,
    set_by          text NOT NULL,
    set_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, pattern),
    CHECK (CASE WHEN public_keys <> '' THEN issuer || identity || identity_regexp = '' AND trusted_root = ''
           ELSE issuer <> '' AND (identity = '') <> (identity_regexp = '') AND trusted_root <> '' END)
);

-- Images that a rule was verified for: a pull of the same digest under the same rule
-- verifies nothing again.
CREATE TABLE verified_images (
    org_id      text COLLATE "C" NOT NULL REFERENCES organisations (id),
    digest      text COLLATE "C" NOT NULL,
    -- SHA-256 of the rule's content, so that a rule that has changed matches no row.
    rule        bytea NOT NULL,
    verified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, digest, rule)
);
CREATE INDEX verified_images_by_age ON verified_images (verified_at);

-- +goose Down
DROP TABLE verified_images, signature_rules;
