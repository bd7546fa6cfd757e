-- +goose Up

-- What a node said last about an upgrade of its program: '' before the first.
ALTER TABLE nodes
    ADD COLUMN upgrade_id      text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN upgrade_version text NOT NULL DEFAULT '',
    ADD COLUMN upgrade_state   text NOT NULL DEFAULT '' CHECK (upgrade_state IN ('', 'trial', 'installed', 'failed')),
    ADD COLUMN upgrade_problem text NOT NULL DEFAULT '';

-- A release that is brought to nodes, by organisation.
CREATE TABLE node_rollouts (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL REFERENCES organisations (id),
    version      text NOT NULL,
    -- SHA-256 of deckhand-node by kind of machine, such as amd64.
    digests      jsonb NOT NULL,
    labels       jsonb NOT NULL,
    percent      int NOT NULL CHECK (percent BETWEEN 1 AND 100),
    max_failures int NOT NULL CHECK (max_failures >= 0),
    state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'replaced')),
    reason       text NOT NULL DEFAULT '',
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX node_rollouts_running ON node_rollouts (org_id) WHERE state = 'running';
CREATE INDEX node_rollouts_newest ON node_rollouts (org_id, created_at DESC, id DESC);

CREATE TABLE node_rollout_nodes (
    rollout_id text COLLATE "C" NOT NULL REFERENCES node_rollouts (id) ON DELETE CASCADE,
    node_id    text COLLATE "C" NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    state      text NOT NULL DEFAULT 'upgrading' CHECK (state IN ('upgrading', 'installed', 'failed')),
    problem    text NOT NULL DEFAULT '',
    told_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The session with the new release, and since when it is known.
    standing_epoch bigint,
    standing_since timestamptz,
    PRIMARY KEY (rollout_id, node_id)
);
CREATE INDEX node_rollout_nodes_upgrading ON node_rollout_nodes (rollout_id) WHERE state = 'upgrading';

-- +goose Down
DROP TABLE node_rollout_nodes;
DROP TABLE node_rollouts;
ALTER TABLE nodes DROP COLUMN upgrade_id, DROP COLUMN upgrade_version, DROP COLUMN upgrade_state, DROP COLUMN upgrade_problem;
