-- +goose Up

-- Files that go from one workspace to another: pinned by their digests when they
-- are promised to a task, and copied when that task begins; or copied at once.
CREATE TABLE artifact_transfers (
    id             text COLLATE "C" PRIMARY KEY,
    org_id         text NOT NULL REFERENCES organisations (id),
    -- The task that they are from, and the one that they are for.
    from_task_id   text REFERENCES tasks (id),
    to_task_id     text REFERENCES tasks (id),
    from_node_id   text NOT NULL,
    from_jail_id   text NOT NULL,
    -- Known once they are copied.
    to_node_id     text,
    to_jail_id     text NOT NULL,
    -- The folder of the target's workspace; empty for the workspace itself.
    folder         text NOT NULL DEFAULT '',
    -- What was found at the source: deckhand.node.v1.DescribeFilesResponse as protojson.
    entries        jsonb NOT NULL,
    files          int NOT NULL CHECK (files >= 0),
    bytes          bigint NOT NULL CHECK (bytes >= 0),
    state          text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'failed')),
    -- Paths that had changed or gone when they were to be copied.
    missing        text[] NOT NULL DEFAULT '{}',
    created_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,
    CHECK ((state = 'pending') = (finished_at IS NULL))
);
CREATE INDEX artifact_transfers_to ON artifact_transfers (to_task_id);
CREATE INDEX artifact_transfers_from ON artifact_transfers (from_task_id);
CREATE INDEX artifact_transfers_place ON artifact_transfers (to_jail_id, finished_at DESC) WHERE state = 'done';

-- How many transfers wait for the task to begin, or were copied then.
ALTER TABLE tasks ADD COLUMN artifact_count int NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE tasks DROP COLUMN artifact_count;
DROP TABLE artifact_transfers;
