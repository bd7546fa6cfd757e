-- +goose Up

-- A task and those that come of it (children, retries, resumed ones) share a
-- lineage: the first one's id.
ALTER TABLE tasks
    ADD COLUMN lineage_id       text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN trigger_id       text NOT NULL DEFAULT 'manual',
    -- What the task runs with instead of what its persona says; its keys are
    -- those of hub/task's Override.
    ADD COLUMN override         jsonb NOT NULL DEFAULT '{}',
    -- The task goes on from that checkpoint of its origin, whose turns and
    -- steps up to there are its own past; 0: it began anew.
    ADD COLUMN resumed_at       int NOT NULL DEFAULT 0 CHECK (resumed_at >= 0),
    -- Who wants it paused before its next tool call, in words; '' for nobody.
    ADD COLUMN pause_next       text NOT NULL DEFAULT '',
    -- Messages that have not been given to the model yet.
    ADD COLUMN messages_waiting int NOT NULL DEFAULT 0 CHECK (messages_waiting >= 0),
    ADD CHECK (resumed_at = 0 OR origin_id IS NOT NULL);
UPDATE tasks SET lineage_id = id;
ALTER TABLE tasks ALTER COLUMN lineage_id DROP DEFAULT, ADD CHECK (lineage_id <> '');
-- The first of a lineage is found by its id.
CREATE INDEX tasks_of_lineage ON tasks (org_id, lineage_id) WHERE lineage_id <> id;
CREATE INDEX tasks_live ON tasks (org_id) WHERE finished_at IS NULL;
-- Tasks that began, hold no slot and keep their workspace.
CREATE INDEX tasks_keeping ON tasks (org_id)
    WHERE started_at IS NOT NULL AND admitted_at IS NULL
      AND state IN ('queued', 'waiting', 'awaiting_approval', 'needs_input', 'paused');

-- What people say to a running agent, secrets masked. A message is bound to the
-- turn after which the model gets it (0: with the goal), so that every attempt
-- asks the model the same.
CREATE TABLE task_messages (
    id              text COLLATE "C" PRIMARY KEY,
    org_id          text NOT NULL,
    task_id         text NOT NULL REFERENCES tasks (id),
    number          bigint GENERATED ALWAYS AS IDENTITY,
    content         text NOT NULL CHECK (content <> ''),
    said_by         text NOT NULL,
    idempotency_key text,
    after_turn      int CHECK (after_turn >= 0),
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (task_id, number),
    UNIQUE (task_id, idempotency_key)
);

ALTER TABLE checkpoints
    ADD COLUMN reason     text NOT NULL DEFAULT 'auto' CHECK (reason IN ('auto', 'manual', 'error', 'phase')),
    ADD COLUMN expires_at timestamptz NOT NULL DEFAULT now() + interval '24 hours';
CREATE INDEX checkpoints_expiry ON checkpoints USING brin (expires_at);

-- What the kill switch leaves standing: nothing in its scope starts before it
-- is released.
CREATE TABLE holds (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text NOT NULL REFERENCES organisations (id),
    scope       text NOT NULL CHECK (scope IN ('agent', 'trigger', 'node', 'lineage', 'organisation')),
    object_id   text NOT NULL,
    held_by     text NOT NULL,
    reason      text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    released_at timestamptz,
    released_by text NOT NULL DEFAULT '',
    CHECK ((released_at IS NULL) = (released_by = ''))
);
CREATE UNIQUE INDEX holds_standing ON holds (org_id, scope, object_id) WHERE released_at IS NULL;
CREATE INDEX holds_newest ON holds (org_id, created_at DESC);

-- Whether a hold keeps new tasks from being made.
-- +goose StatementBegin
CREATE FUNCTION held(org text, agent text, trigger_ text, lineage text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM holds h WHERE h.org_id = org AND h.released_at IS NULL
          AND (h.scope = 'organisation' OR h.scope = 'agent' AND h.object_id = agent
               OR h.scope = 'trigger' AND h.object_id = trigger_ OR h.scope = 'lineage' AND h.object_id = lineage))
$$;
-- +goose StatementEnd

-- What nodes have been, or are to be, told to kill: stored with the task's end,
-- done when the node has said that nothing is left.
CREATE TABLE kill_orders (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organisations (id),
    task_id      text NOT NULL REFERENCES tasks (id),
    node_id      text NOT NULL REFERENCES nodes (id),
    jail_id      text NOT NULL,
    -- The task's steps that had been started.
    step_ids     text[] NOT NULL DEFAULT '{}',
    ordered_by   text NOT NULL,
    ordered_at   timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz,
    -- What keeps it from being confirmed.
    problem      text NOT NULL DEFAULT ''
);
CREATE INDEX kill_orders_open ON kill_orders (org_id, node_id) WHERE confirmed_at IS NULL;
CREATE INDEX kill_orders_of_task ON kill_orders (task_id);

-- Who changed what. Rows are only ever added.
CREATE TABLE audit_entries (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id      text NOT NULL,
    time        timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor_kind  text NOT NULL,
    actor_id    text NOT NULL,
    action      text NOT NULL CHECK (action <> ''),
    object_kind text NOT NULL,
    object_id   text NOT NULL,
    before      jsonb NOT NULL DEFAULT '{}',
    after       jsonb NOT NULL DEFAULT '{}',
    reason      text NOT NULL DEFAULT '',
    address     text NOT NULL DEFAULT '',
    user_agent  text NOT NULL DEFAULT ''
);
CREATE INDEX audit_entries_newest ON audit_entries (org_id, id DESC);
CREATE INDEX audit_entries_of_object ON audit_entries (org_id, object_id, id DESC);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_append_only';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE audit_entries, kill_orders, holds, task_messages;
DROP FUNCTION refuse_change, held;
DROP INDEX checkpoints_expiry, tasks_keeping, tasks_live, tasks_of_lineage;
ALTER TABLE checkpoints DROP COLUMN reason, DROP COLUMN expires_at;
ALTER TABLE tasks DROP COLUMN lineage_id, DROP COLUMN trigger_id, DROP COLUMN override, DROP COLUMN resumed_at,
    DROP COLUMN pause_next, DROP COLUMN messages_waiting;
