-- +goose Up

-- What starts tasks without a person: a webhook, a schedule, a loop, or a
-- button. spec is the deckhand.v1.TriggerSpec as protojson.
CREATE TABLE triggers (
    id            text COLLATE "C" PRIMARY KEY,
    org_id        text COLLATE "C" NOT NULL REFERENCES organisations (id),
    agent_id      text COLLATE "C" NOT NULL REFERENCES agents (id),
    name          text NOT NULL CHECK (name <> ''),
    kind          text NOT NULL CHECK (kind IN ('webhook', 'cron', 'loop', 'manual')),
    spec          jsonb NOT NULL,
    -- tripped: its spend breaker, or a limit of its own, stopped it.
    state         text NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled', 'tripped')),
    reason        text NOT NULL DEFAULT '',
    state_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Counts the changes of anything that a hub may keep in memory.
    revision      int NOT NULL DEFAULT 1 CHECK (revision > 0),
    -- What senders prove themselves with; the one before counts until
    -- before_until.
    sealed        bytea,
    sealed_before bytea,
    before_until  timestamptz,
    -- The secret's last characters, for people to tell secrets apart.
    hint          text NOT NULL DEFAULT '',
    -- The slot of a schedule that is next, and when it fires: later than the slot
    -- by the jitter. A loop whose run goes on has neither.
    slot_at       timestamptz,
    next_at       timestamptz,
    -- The newest task that it started.
    last_task_id  text COLLATE "C" NOT NULL DEFAULT '',
    -- Runs since it was enabled.
    runs          bigint NOT NULL DEFAULT 0,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at    timestamptz,
    CHECK (state = 'enabled' OR reason <> ''),
    CHECK ((sealed_before IS NULL) = (before_until IS NULL)),
    CHECK (deleted_at IS NULL OR sealed IS NULL AND sealed_before IS NULL),
    CHECK (slot_at IS NULL OR kind = 'cron')
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX triggers_name ON triggers (org_id, name) WHERE deleted_at IS NULL;
CREATE INDEX triggers_of_agent ON triggers (org_id, agent_id) WHERE deleted_at IS NULL;
CREATE INDEX triggers_due ON triggers (next_at) WHERE state = 'enabled' AND deleted_at IS NULL AND next_at IS NOT NULL;
CREATE INDEX triggers_looping ON triggers (id) WHERE state = 'enabled' AND deleted_at IS NULL AND kind = 'loop' AND next_at IS NULL;

-- Every firing, and what became of it. One that is accepted waits for a hub to
-- map it and to make its task, in the transaction that says so here.
CREATE TABLE deliveries (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL,
    -- Not a reference: each check would lock the trigger, at every delivery.
    trigger_id   text COLLATE "C" NOT NULL,
    -- The sender's id of the delivery, or what takes its place; a schedule's slot.
    key          text NOT NULL CHECK (key <> ''),
    source       text NOT NULL CHECK (source IN ('webhook', 'cron', 'loop', 'manual', 'replay')),
    state        text NOT NULL CHECK (state IN ('accepted', 'duplicate', 'filtered', 'failed', 'started')),
    reason       text NOT NULL DEFAULT '',
    -- Who or what sent it.
    address      text NOT NULL DEFAULT '',
    sent_by      text NOT NULL DEFAULT '',
    event        text NOT NULL DEFAULT '',
    headers      jsonb NOT NULL DEFAULT '{}',
    body         bytea NOT NULL DEFAULT '',
    -- What a person wants instead of the trigger's goal.
    goal         text NOT NULL DEFAULT '',
    slot_at      timestamptz,
    duplicate_of text COLLATE "C",
    replay_of    text COLLATE "C",
    -- What came of it.
    prompt       text NOT NULL DEFAULT '',
    task_id      text COLLATE "C",
    -- What it may not run beside.
    flight       text NOT NULL DEFAULT '',
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    handled_at   timestamptz,
    CHECK ((state = 'duplicate') = (duplicate_of IS NOT NULL)),
    CHECK ((state = 'started') = (task_id IS NOT NULL)),
    CHECK ((source = 'replay') = (replay_of IS NOT NULL)),
    CHECK (state IN ('accepted', 'started') OR reason <> '')
);
-- Compressing what is kept for a month is not worth the processor.
ALTER TABLE deliveries ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX deliveries_key ON deliveries (trigger_id, key) WHERE duplicate_of IS NULL;
CREATE INDEX deliveries_newest ON deliveries (org_id, trigger_id, received_at DESC, id DESC);
CREATE INDEX deliveries_due ON deliveries (due_at, received_at) WHERE state = 'accepted';
CREATE INDEX deliveries_waiting ON deliveries (org_id, flight, received_at) WHERE state = 'accepted' AND flight <> '';
CREATE INDEX deliveries_old ON deliveries (trigger_id, received_at) WHERE state <> 'accepted';

-- Of what may run once at a time, what runs: the newest task of each key.
CREATE TABLE flights (
    org_id  text COLLATE "C" NOT NULL REFERENCES organisations (id),
    key     text NOT NULL,
    task_id text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (org_id, key)
);
CREATE INDEX flights_of_task ON flights (org_id, task_id);

CREATE INDEX tasks_triggered ON tasks (org_id, trigger_id, finished_at) WHERE trigger_id <> 'manual';

-- +goose Down
DROP INDEX tasks_triggered;
DROP TABLE flights, deliveries, triggers;
