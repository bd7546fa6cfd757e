-- +goose Up

-- Policies in versions: of the organisation (agent_id is empty) and of agents.
-- A version is never changed; the newest holds.
CREATE TABLE policies (
    org_id     text COLLATE "C" NOT NULL,
    agent_id   text COLLATE "C" NOT NULL DEFAULT '',
    version    int NOT NULL CHECK (version > 0),
    yaml       text NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, agent_id, version)
);

-- What people said is to be allowed from now on.
CREATE TABLE allow_rules (
    id               text COLLATE "C" PRIMARY KEY,
    org_id           text COLLATE "C" NOT NULL,
    -- Empty for every agent.
    agent_id         text COLLATE "C" NOT NULL DEFAULT '',
    tool             text NOT NULL,
    -- What of the tool: its arguments as they were, commands by their first words,
    -- or any call.
    scope            text NOT NULL CHECK (scope IN ('exact', 'commands', 'tool')),
    arguments_digest bytea,
    commands         text[] NOT NULL DEFAULT '{}',
    description      text NOT NULL,
    item_id          text COLLATE "C" NOT NULL,
    created_by       text COLLATE "C" NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at       timestamptz NOT NULL,
    revoked_by       text COLLATE "C" NOT NULL DEFAULT '',
    revoked_at       timestamptz,
    CHECK ((scope = 'exact') = (arguments_digest IS NOT NULL)),
    CHECK ((scope = 'commands') = (cardinality(commands) > 0)),
    CHECK ((revoked_at IS NULL) = (revoked_by = ''))
);
CREATE INDEX allow_rules_live ON allow_rules (org_id, expires_at) WHERE revoked_at IS NULL;

-- Which rule of which policy decided a call, and what was dangerous in it.
ALTER TABLE steps ADD COLUMN decision jsonb NOT NULL DEFAULT '{}';
-- How often a tool was called of late.
CREATE INDEX steps_by_time ON steps (org_id, proposed_at);

-- +goose Down
DROP INDEX steps_by_time;
ALTER TABLE steps DROP COLUMN decision;
DROP TABLE allow_rules;
DROP TABLE policies;
