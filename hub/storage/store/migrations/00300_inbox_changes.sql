-- +goose Up

-- What the call of a file tool would do to its workspace, as it was when somebody
-- looked. It may be long, and lists of items do not need it.
CREATE TABLE inbox_changes (
    item_id   text COLLATE "C" PRIMARY KEY REFERENCES inbox_items (id) ON DELETE CASCADE,
    org_id    text COLLATE "C" NOT NULL,
    -- Secrets are masked.
    changes   jsonb NOT NULL,
    -- Why they are not known; empty if they are.
    unknown   text NOT NULL,
    looked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A digest of the changes: an approval is for them, too.
ALTER TABLE inbox_items ADD COLUMN changes_digest text NOT NULL DEFAULT '';

CREATE INDEX inbox_items_of_tool ON inbox_items (org_id, agent_id, tool, answered_at) WHERE state = 'answered';

-- +goose Down

DROP INDEX inbox_items_of_tool;
ALTER TABLE inbox_items DROP COLUMN changes_digest;
DROP TABLE inbox_changes;
