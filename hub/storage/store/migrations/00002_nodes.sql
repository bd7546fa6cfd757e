-- +goose Up

-- New tasks are kept off a drained node.
ALTER TABLE nodes
    ADD COLUMN drained_at   timestamptz,
    ADD COLUMN drained_by   text NOT NULL DEFAULT '',
    ADD COLUMN drain_reason text NOT NULL DEFAULT '',
    ADD CHECK ((drained_at IS NULL) = (drained_by = ''));

-- Who works, or worked, on a machine itself. One at a time holds it.
CREATE TABLE node_locks (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organisations (id),
    node_id     text NOT NULL REFERENCES nodes (id),
    user_id     text NOT NULL,
    user_name   text NOT NULL,
    reason      text NOT NULL CHECK (reason <> ''),
    -- The command that took it and gives it back; null for a person's own.
    exec_id     text,
    taken_at    timestamptz NOT NULL DEFAULT now(),
    released_at timestamptz,
    released_by text NOT NULL DEFAULT '',
    CHECK ((released_at IS NULL) = (released_by = ''))
);
CREATE UNIQUE INDEX node_locks_held ON node_locks (node_id) WHERE released_at IS NULL;
CREATE INDEX node_locks_newest ON node_locks (org_id, taken_at DESC);

-- People's commands and terminals on nodes: stored before they are sent, and
-- again when they have ended.
CREATE TABLE node_execs (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organisations (id),
    node_id      text NOT NULL REFERENCES nodes (id),
    target       text NOT NULL CHECK (target IN ('jail', 'host')),
    agent_id     text REFERENCES agents (id),
    jail_id      text NOT NULL DEFAULT '',
    terminal     boolean NOT NULL,
    -- argv and dir with secrets masked, for people; the request as it was sent,
    -- sealed.
    argv         text[] NOT NULL,
    dir          text NOT NULL DEFAULT '',
    spec_sealed  bytea NOT NULL,
    reason       text NOT NULL DEFAULT '',
    state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'ended')),
    end_reason   text NOT NULL DEFAULT '',
    exit_code    int NOT NULL DEFAULT 0,
    signal       int NOT NULL DEFAULT 0,
    killed_by    text NOT NULL DEFAULT '',
    error        text NOT NULL DEFAULT '',
    log_bytes    bigint NOT NULL DEFAULT 0,
    members_left int NOT NULL DEFAULT 0,
    user_id      text NOT NULL,
    user_name    text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at   timestamptz,
    finished_at  timestamptz,
    CHECK ((target = 'host') = (agent_id IS NULL)),
    CHECK ((target = 'host') = (jail_id = '')),
    CHECK ((state = 'ended') = (finished_at IS NOT NULL)),
    CHECK ((state = 'ended') = (end_reason <> ''))
);
CREATE INDEX node_execs_newest ON node_execs (org_id, created_at DESC, id DESC);
CREATE INDEX node_execs_live ON node_execs (node_id) WHERE state <> 'ended';

INSERT INTO transitions (object, from_state, to_state) VALUES
    ('node_exec', 'pending', 'running'), ('node_exec', 'pending', 'ended'), ('node_exec', 'running', 'ended');

CREATE TRIGGER node_execs_transition BEFORE UPDATE OF state ON node_execs
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION refuse_unknown_transition('node_exec');

-- +goose Down
DROP TABLE node_execs, node_locks;
DELETE FROM transitions WHERE object = 'node_exec';
ALTER TABLE nodes DROP COLUMN drained_at, DROP COLUMN drained_by, DROP COLUMN drain_reason;
