-- +goose Up

-- Times are the database's. Ids are text made by internal/ident. Money is in
-- millionths of a US dollar. Every table that holds an organisation's data
-- carries org_id, and every query names it.

CREATE TABLE organisations (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organisations (id),
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('viewer', 'basic', 'advanced', 'admin')),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, name)
);

-- Tokens of people, programs and workers. Only the hash is kept.
CREATE TABLE api_tokens (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text NOT NULL REFERENCES organisations (id),
    kind       text NOT NULL CHECK (kind IN ('user', 'worker')),
    user_id    text REFERENCES users (id),
    name       text NOT NULL,
    hash       bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CHECK ((kind = 'user') = (user_id IS NOT NULL))
);

-- Secrets of the installation itself, sealed: the CA's key and the like.
CREATE TABLE cluster_secrets (
    name       text PRIMARY KEY,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE nodes (
    id              text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organisations (id),
    name            text NOT NULL,
    key_fingerprint text NOT NULL UNIQUE,
    labels          jsonb NOT NULL DEFAULT '{}',
    version         text NOT NULL DEFAULT '',
    capability      int NOT NULL DEFAULT 0,
    runtimes        text[] NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now(),
    last_seen_at    timestamptz,
    revoked_at      timestamptz
);
CREATE UNIQUE INDEX nodes_name ON nodes (org_id, name) WHERE revoked_at IS NULL;

-- Which hub replica holds a node's link. The epoch only grows, so that a late
-- close of an old session cannot end a new one.
CREATE TABLE node_sessions (
    node_id      text PRIMARY KEY REFERENCES nodes (id),
    org_id       text NOT NULL REFERENCES organisations (id),
    epoch        bigint NOT NULL,
    replica      text NOT NULL,
    connected    boolean NOT NULL,
    touched_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE join_tokens (
    id              text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organisations (id),
    hash            bytea NOT NULL UNIQUE,
    labels          jsonb NOT NULL DEFAULT '{}',
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    used_at         timestamptz,
    key_fingerprint text,
    node_id         text REFERENCES nodes (id),
    CHECK ((used_at IS NULL) = (key_fingerprint IS NULL)),
    CHECK ((used_at IS NULL) = (node_id IS NULL))
);

CREATE TABLE workers (
    id            text COLLATE "C" PRIMARY KEY,
    org_id        text NOT NULL REFERENCES organisations (id),
    name          text NOT NULL,
    pool          text NOT NULL,
    slots         int NOT NULL CHECK (slots > 0),
    version       text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE agents (
    id              text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL REFERENCES organisations (id),
    name            text NOT NULL,
    status          text NOT NULL DEFAULT 'idle'
                    CHECK (status IN ('idle', 'listening', 'paused', 'error_suspended', 'disabled')),
    status_reason   text NOT NULL DEFAULT '',
    current_version int NOT NULL DEFAULT 0,
    home_node_id    text REFERENCES nodes (id),
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, name)
);

CREATE TABLE agent_versions (
    agent_id    text NOT NULL REFERENCES agents (id),
    version     int NOT NULL CHECK (version > 0),
    org_id      text NOT NULL REFERENCES organisations (id),
    markdown    text NOT NULL,
    script      text NOT NULL DEFAULT '',
    digest      text NOT NULL,
    description text NOT NULL,
    provider    text NOT NULL,
    model       text NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_id, version)
);

-- The moves that hub/task and hub/step allow; a test holds the code's tables
-- and this one together.
CREATE TABLE transitions (
    object     text NOT NULL,
    from_state text NOT NULL,
    to_state   text NOT NULL,
    PRIMARY KEY (object, from_state, to_state)
);

INSERT INTO transitions (object, from_state, to_state)
SELECT 'task', f, t FROM (VALUES
    ('pending', ARRAY['queued', 'cancelled']),
    ('queued', ARRAY['starting', 'paused', 'timed_out', 'cancelled']),
    ('starting', ARRAY['running', 'queued', 'failed', 'escalated', 'cancelled']),
    ('running', ARRAY['queued', 'waiting', 'awaiting_approval', 'needs_input', 'paused', 'review_needed',
                      'escalated', 'succeeded', 'failed', 'timed_out', 'cancelled']),
    ('waiting', ARRAY['queued', 'paused', 'failed', 'timed_out', 'cancelled']),
    ('awaiting_approval', ARRAY['queued', 'timed_out', 'cancelled']),
    ('needs_input', ARRAY['queued', 'timed_out', 'cancelled']),
    ('paused', ARRAY['queued', 'failed', 'timed_out', 'cancelled']),
    ('review_needed', ARRAY['succeeded', 'queued', 'failed', 'cancelled']),
    ('escalated', ARRAY['queued', 'failed', 'cancelled'])
) AS moves (f, ts), unnest(ts) AS t;

INSERT INTO transitions (object, from_state, to_state)
SELECT 'step', f, t FROM (VALUES
    ('proposed', ARRAY['denied', 'waiting', 'granted', 'cancelled']),
    ('waiting', ARRAY['denied', 'granted', 'skipped', 'cancelled']),
    ('granted', ARRAY['started', 'skipped', 'cancelled']),
    ('started', ARRAY['succeeded', 'failed', 'unknown', 'cancelled']),
    ('unknown', ARRAY['granted', 'succeeded', 'failed', 'skipped', 'cancelled'])
) AS moves (f, ts), unnest(ts) AS t;

-- +goose StatementBegin
CREATE FUNCTION refuse_unknown_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM transitions
    WHERE object = TG_ARGV[0] AND from_state = OLD.state AND to_state = NEW.state;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% % may not go from % to %', TG_ARGV[0], OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_ARGV[0] || '_transition';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- From here on, nothing references the rows that all tasks share (organisation,
-- node, worker, agent): each check would lock them, thousands of times a second,
-- and a row that is changed twice in a transaction is checked again. Those ids
-- are always taken from rows read before, which are never deleted.

CREATE TABLE tasks (
    id                text COLLATE "C" PRIMARY KEY,
    org_id            text NOT NULL,
    agent_id          text NOT NULL,
    agent_version     int NOT NULL,
    title             text NOT NULL,
    goal              text NOT NULL CHECK (char_length(goal) <= 10000),
    state             text NOT NULL DEFAULT 'pending' CHECK (state IN (
                          'pending', 'queued', 'starting', 'running', 'waiting', 'awaiting_approval',
                          'needs_input', 'paused', 'review_needed', 'escalated',
                          'succeeded', 'failed', 'timed_out', 'cancelled')),
    reason            text NOT NULL DEFAULT '',
    priority          int NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10),
    pool              text NOT NULL DEFAULT 'default',
    workspace_scope   text NOT NULL CHECK (workspace_scope IN ('agent', 'task')),
    jail_id           text NOT NULL,
    node_id           text,
    created_by        text NOT NULL,
    created_by_role   text NOT NULL,
    idempotency_key   text,
    correlation_id    text NOT NULL,
    input_count       int NOT NULL DEFAULT 0,
    origin_id         text REFERENCES tasks (id),
    parent_id         text REFERENCES tasks (id),

    -- Admission and lease.
    admitted_at       timestamptz,
    attempt           int NOT NULL DEFAULT 0,
    worker_losses     int NOT NULL DEFAULT 0,
    worker_id         text,
    lease_hash        bytea,
    lease_expires_at  timestamptz,

    -- Progress.
    event_seq         bigint NOT NULL DEFAULT 0,
    step_count        int NOT NULL DEFAULT 0,
    turn_count        int NOT NULL DEFAULT 0,
    iteration         int NOT NULL DEFAULT 0,
    progress          double precision NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    input_tokens      bigint NOT NULL DEFAULT 0,
    output_tokens     bigint NOT NULL DEFAULT 0,
    cache_read_tokens bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    cost_micros       bigint NOT NULL DEFAULT 0 CHECK (cost_micros >= 0),
    summary           text NOT NULL DEFAULT '',
    error_code        text NOT NULL DEFAULT '',
    error_message     text NOT NULL DEFAULT '',

    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at         timestamptz,
    started_at        timestamptz,
    finished_at       timestamptz,

    UNIQUE (org_id, idempotency_key),
    CHECK (state = 'running' OR reason <> ''),
    CHECK ((state IN ('starting', 'running')) = (lease_hash IS NOT NULL)),
    CHECK ((lease_hash IS NULL) = (lease_expires_at IS NULL)),
    CHECK ((state IN ('succeeded', 'failed', 'timed_out', 'cancelled')) = (finished_at IS NOT NULL))
) WITH (fillfactor = 60);
CREATE INDEX tasks_newest ON tasks (org_id, created_at DESC, id DESC);
CREATE INDEX tasks_of_agent ON tasks (org_id, agent_id, created_at DESC, id DESC);
CREATE INDEX tasks_queue ON tasks (org_id, priority DESC, queued_at, id) WHERE state = 'queued' AND admitted_at IS NULL;
-- Tasks that hold or are about to hold a slot. Neither index has a column that
-- a renewal or an event changes: those updates stay within their page.
CREATE INDEX tasks_active ON tasks (org_id, agent_id)
    WHERE state IN ('starting', 'running') OR (state = 'queued' AND admitted_at IS NOT NULL);
CREATE INDEX tasks_leased ON tasks (org_id) WHERE lease_hash IS NOT NULL;

CREATE TRIGGER tasks_transition BEFORE UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION refuse_unknown_transition('task');

CREATE TABLE task_inputs (
    task_id text NOT NULL REFERENCES tasks (id),
    path    text NOT NULL,
    org_id  text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (task_id, path)
);

-- One worker's lease on a task.
CREATE TABLE attempts (
    task_id    text NOT NULL REFERENCES tasks (id),
    attempt    int NOT NULL CHECK (attempt > 0),
    org_id     text NOT NULL,
    worker_id  text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    -- The last numbered batch of events that the worker has stored.
    batch      bigint NOT NULL DEFAULT 0,
    outcome    text NOT NULL DEFAULT '' CHECK (outcome IN ('', 'finished', 'released', 'lost', 'cancelled')),
    PRIMARY KEY (task_id, attempt)
);

-- Finished model turns. content is the deckhand.v1.Turn as protojson, masked;
-- sealed is the original, which a run goes on from.
CREATE TABLE turns (
    task_id    text NOT NULL REFERENCES tasks (id),
    turn       int NOT NULL CHECK (turn > 0),
    org_id     text NOT NULL,
    attempt    int NOT NULL,
    content    jsonb NOT NULL,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task_id, turn)
);

-- The effect ledger: intent before, outcome after.
CREATE TABLE steps (
    id               text COLLATE "C" PRIMARY KEY,
    org_id           text NOT NULL,
    task_id          text NOT NULL REFERENCES tasks (id),
    number           int NOT NULL CHECK (number > 0),
    turn             int NOT NULL,
    call_index       int NOT NULL,
    call_id          text NOT NULL,
    attempt          int NOT NULL,
    tool             text NOT NULL,
    category         text NOT NULL CHECK (category IN ('', 'safe', 'moderate', 'dangerous')),
    arguments        jsonb NOT NULL,
    arguments_sealed bytea NOT NULL,
    arguments_digest bytea NOT NULL,
    reasoning        text NOT NULL DEFAULT '',
    state            text NOT NULL DEFAULT 'proposed' CHECK (state IN (
                         'proposed', 'denied', 'waiting', 'granted', 'started',
                         'succeeded', 'failed', 'unknown', 'skipped', 'cancelled')),
    decision_reason  text NOT NULL DEFAULT '',
    observation      text NOT NULL DEFAULT '',
    outcome          jsonb NOT NULL DEFAULT '{}',
    error_code       text NOT NULL DEFAULT '',
    node_id          text,
    jail_id          text NOT NULL DEFAULT '',
    log_bytes        bigint NOT NULL DEFAULT 0,
    proposed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at       timestamptz,
    finished_at      timestamptz,
    UNIQUE (task_id, turn, call_index),
    UNIQUE (task_id, number)
);

CREATE TRIGGER steps_transition BEFORE UPDATE OF state ON steps
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION refuse_unknown_transition('step');

-- Append-only history, written by one statement that numbers the events on their
-- task's row. Within a task seq counts from 1 without gaps; across tasks (xid, id)
-- is commit order for every xid below event_horizon().
CREATE TABLE events (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    org_id         text NOT NULL,
    task_id        text NOT NULL,
    seq            bigint NOT NULL CHECK (seq > 0),
    type           text NOT NULL,
    time           timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor_kind     text NOT NULL,
    actor_id       text NOT NULL,
    attempt        int NOT NULL,
    correlation_id text NOT NULL,
    payload        jsonb NOT NULL,
    UNIQUE (task_id, seq)
);
CREATE INDEX events_order ON events (org_id, xid, id);

-- The lowest id that a running transaction of this database may have.
-- (pg_snapshot_xmin answers that of the whole server, where somebody else's
-- long transaction would hold up every watch.)
-- +goose StatementBegin
CREATE FUNCTION event_horizon() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - coalesce(max(age(backend_xid)), 0))::text
    FROM pg_stat_get_activity(NULL) -- what the view pg_stat_activity reads
    WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND backend_xid IS NOT NULL
$$;
-- +goose StatementEnd

-- Loop state at iteration boundaries.
CREATE TABLE checkpoints (
    task_id    text NOT NULL REFERENCES tasks (id),
    iteration  int NOT NULL CHECK (iteration > 0),
    org_id     text NOT NULL,
    attempt    int NOT NULL,
    state      jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task_id, iteration)
);

-- +goose Down
DROP TABLE checkpoints, events, steps, turns, attempts, task_inputs, tasks, transitions, agent_versions,
    agents, workers, join_tokens, node_sessions, nodes, cluster_secrets, api_tokens, users, organisations;
DROP FUNCTION refuse_unknown_transition, event_horizon;
