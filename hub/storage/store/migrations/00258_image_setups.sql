-- +goose Up
ALTER TABLE image_rules ADD COLUMN allow_root boolean NOT NULL DEFAULT false;

-- Setups of images: the commands of jail.setup, which run once for an image on a node.
-- Each command is a row of node_execs.
CREATE TABLE image_setups (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    node_id    text COLLATE "C" NOT NULL REFERENCES nodes (id),
    agent_id   text COLLATE "C" NOT NULL REFERENCES agents (id),
    -- REGISTRY/NAME@sha256:DIGEST, and the digest of the commands.
    image      text NOT NULL,
    setup      text NOT NULL,
    jail_id    text COLLATE "C" NOT NULL,
    state      text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'ready', 'failed')),
    -- How many commands there are, and the one that is running or was last, from 1; 0 before
    -- the first.
    lines      int NOT NULL CHECK (lines > 0),
    line       int NOT NULL DEFAULT 0 CHECK (line BETWEEN 0 AND lines),
    -- That command.
    exec_id    text COLLATE "C" REFERENCES node_execs (id),
    error      text NOT NULL DEFAULT '',
    started_by text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When its hub last said that it goes on with it.
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    -- When its node confirmed that nothing of it runs, and that its root is deleted.
    cleared_at timestamptz,
    CHECK ((state = 'running') = (ended_at IS NULL)),
    CHECK (cleared_at IS NULL OR state <> 'running'),
    CHECK ((state = 'failed') = (error <> ''))
);
CREATE UNIQUE INDEX image_setups_running ON image_setups (node_id, image, setup) WHERE state = 'running';
CREATE INDEX image_setups_left ON image_setups (seen_at) WHERE cleared_at IS NULL;
CREATE INDEX image_setups_agent ON image_setups (org_id, agent_id, started_at DESC);

-- +goose Down
DROP TABLE image_setups;
ALTER TABLE image_rules DROP COLUMN allow_root;
