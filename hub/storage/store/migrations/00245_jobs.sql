-- +goose Up
-- Commands that go on in the background: the calls that started them have ended. A job
-- runs on its node until it ends by itself, is killed, or its task has ended.
CREATE TABLE jobs (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL REFERENCES organisations (id),
    task_id     text COLLATE "C" NOT NULL REFERENCES tasks (id),
    step_id     text COLLATE "C" NOT NULL UNIQUE REFERENCES steps (id),
    -- The name that the node knows the command by.
    exec_id     text COLLATE "C" NOT NULL,
    node_id     text COLLATE "C" NOT NULL,
    jail_id     text COLLATE "C" NOT NULL,
    -- The command line, secrets masked, at most 1 KiB of it.
    command     text NOT NULL,
    state       text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'ended')),
    -- How it ended, as the outcome of a step.
    outcome     jsonb NOT NULL DEFAULT '{}',
    -- Up to where the agent has read its output, and how much input its calls have given
    -- it: a call that is repeated after a crash writes to the same place.
    read_bytes  bigint NOT NULL DEFAULT 0 CHECK (read_bytes >= 0),
    input_bytes bigint NOT NULL DEFAULT 0 CHECK (input_bytes >= 0),
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    CHECK ((state = 'ended') = (ended_at IS NOT NULL))
);
CREATE INDEX jobs_of_task ON jobs (task_id, started_at);
CREATE INDEX jobs_running ON jobs (node_id) WHERE state = 'running';

-- +goose Down
DROP TABLE jobs;
