-- +goose Up

-- What a step changed in its workspace; no row for one that changed nothing.
CREATE TABLE step_changes (
    step_id      text COLLATE "C" PRIMARY KEY REFERENCES steps (id),
    org_id       text NOT NULL,
    task_id      text NOT NULL REFERENCES tasks (id),
    node_id      text NOT NULL,
    jail_id      text NOT NULL,
    -- The id that the node knows the changes by: the step's, or that of the run
    -- of it which took effect.
    change_id    text NOT NULL,
    -- The states of the workspace, as its node numbers them.
    state_before bigint NOT NULL CHECK (state_before >= 0),
    state_after  bigint NOT NULL,
    files        int NOT NULL CHECK (files > 0),
    -- The first 100 paths: the changes of deckhand.node.v1.WorkspaceChange as
    -- protojson.
    changes      jsonb NOT NULL,
    shared_with  text[] NOT NULL DEFAULT '{}',
    unkept       int NOT NULL DEFAULT 0,
    undone_at    timestamptz,
    undo_id      text,
    CHECK (state_after >= state_before),
    CHECK ((undone_at IS NULL) = (undo_id IS NULL))
);
CREATE INDEX step_changes_of_task ON step_changes (task_id);

-- Undos: stored before the node is asked, and again when it has answered, so
-- that none is done and not recorded.
CREATE TABLE undos (
    id              text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organisations (id),
    task_id         text NOT NULL REFERENCES tasks (id),
    node_id         text NOT NULL,
    jail_id         text NOT NULL,
    step_ids        text[] NOT NULL CHECK (cardinality(step_ids) > 0),
    change_ids      text[] NOT NULL CHECK (cardinality(change_ids) > 0),
    on_conflict     text NOT NULL CHECK (on_conflict IN ('refuse', 'skip', 'overwrite')),
    expect_state    bigint NOT NULL DEFAULT 0,
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'refused')),
    files           int NOT NULL DEFAULT 0,
    original_digest text NOT NULL DEFAULT '',
    restored_digest text NOT NULL DEFAULT '',
    asked_by        text NOT NULL,
    address         text NOT NULL DEFAULT '',
    user_agent      text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    CHECK ((state = 'pending') = (finished_at IS NULL))
);
CREATE INDEX undos_pending ON undos (task_id) WHERE state = 'pending';

-- +goose Down
DROP TABLE undos, step_changes;
