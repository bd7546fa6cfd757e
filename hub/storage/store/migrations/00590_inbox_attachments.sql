-- +goose Up
-- The files of an agent's question, as they were when it was asked. Their content is deleted
-- some time after the item is closed.
CREATE TABLE inbox_attachments (
    item_id        text COLLATE "C" NOT NULL REFERENCES inbox_items (id) ON DELETE CASCADE,
    -- From 1, in the order in which the agent named them.
    number         integer NOT NULL CHECK (number > 0),
    org_id         text COLLATE "C" NOT NULL,
    path           text NOT NULL,
    size_bytes     bigint NOT NULL CHECK (size_bytes >= 0),
    -- SHA-256 of the content in hexadecimal; empty if problem is set.
    sha256         text NOT NULL,
    -- Why there is no content; empty if there is, or was.
    problem        text NOT NULL DEFAULT '',
    content_sealed bytea,
    PRIMARY KEY (item_id, number)
);
CREATE INDEX inbox_attachments_kept ON inbox_attachments (item_id) WHERE content_sealed IS NOT NULL;

-- +goose Down
DROP TABLE inbox_attachments;
