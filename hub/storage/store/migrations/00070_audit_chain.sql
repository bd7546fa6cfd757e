-- +goose Up

ALTER TABLE audit_entries ADD COLUMN severity text NOT NULL DEFAULT 'low' CHECK (severity IN ('low', 'medium', 'high'));

-- Entries that are in no chain yet. Ids are given before transactions are
-- committed, so that their order says nothing about what is still to come.
CREATE TABLE audit_unsealed (
    entry_id bigint PRIMARY KEY,
    org_id   text COLLATE "C" NOT NULL
);
CREATE INDEX audit_unsealed_of_org ON audit_unsealed (org_id, entry_id);

-- Where in its organisation's chain an entry is, from 1 without gaps.
CREATE TABLE audit_chain (
    org_id   text COLLATE "C" NOT NULL,
    position bigint NOT NULL CHECK (position > 0),
    entry_id bigint NOT NULL UNIQUE,
    PRIMARY KEY (org_id, position)
);

-- Signed hashes of a chain up to a position; see internal/auditlog.
CREATE TABLE audit_heads (
    org_id    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL CHECK (number > 0),
    position  bigint NOT NULL,
    hash      bytea NOT NULL,
    time      timestamptz NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (org_id, number),
    UNIQUE (org_id, position)
);

-- +goose StatementBegin
CREATE FUNCTION audit_to_seal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_unsealed (entry_id, org_id) SELECT id, org_id FROM added;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
INSERT INTO audit_unsealed (entry_id, org_id) SELECT id, org_id FROM audit_entries;
CREATE TRIGGER audit_entries_to_seal AFTER INSERT ON audit_entries REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION audit_to_seal();
CREATE TRIGGER audit_chain_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_chain
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_heads_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_heads
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down

DROP TRIGGER audit_entries_to_seal ON audit_entries;
DROP FUNCTION audit_to_seal();
DROP TABLE audit_heads, audit_chain, audit_unsealed;
ALTER TABLE audit_entries DROP COLUMN severity;
