-- +goose Up

ALTER TABLE steps
    -- How often the call was given to where it runs; each time has a name of its
    -- own there, since a node runs no name twice.
    ADD COLUMN run               int NOT NULL DEFAULT 1 CHECK (run > 0),
    ADD COLUMN exec_id           text NOT NULL GENERATED ALWAYS AS (CASE WHEN run = 1 THEN id ELSE id || '_' || run::text END) STORED,
    -- What a person's grant is bound to, by part; null where none was asked.
    ADD COLUMN granted_binding   jsonb,
    -- The arguments as a person changed them before the grant: masked, and sealed.
    ADD COLUMN changed_arguments jsonb,
    ADD COLUMN changed_sealed    bytea,
    ADD COLUMN changed_by        text NOT NULL DEFAULT '',
    ADD CHECK ((changed_arguments IS NULL) = (changed_sealed IS NULL)),
    ADD CHECK ((changed_arguments IS NULL) = (changed_by = ''));
CREATE INDEX steps_execs ON steps (org_id, exec_id) WHERE state = 'started';

-- A grant whose binding no longer holds is asked for again.
INSERT INTO transitions (object, from_state, to_state) VALUES
    ('step', 'granted', 'waiting'),
    ('inbox_item', 'open', 'answered'), ('inbox_item', 'open', 'expired'), ('inbox_item', 'open', 'withdrawn');

-- What waits for a person.
CREATE TABLE inbox_items (
    id                text COLLATE "C" PRIMARY KEY,
    org_id            text NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('approval', 'question', 'unknown')),
    state             text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered', 'expired', 'withdrawn')),
    task_id           text NOT NULL REFERENCES tasks (id),
    step_id           text NOT NULL REFERENCES steps (id),
    agent_id          text NOT NULL,
    tool              text NOT NULL,
    category          text NOT NULL CHECK (category IN ('safe', 'moderate', 'dangerous')),
    -- What is asked, with secrets masked.
    arguments         jsonb NOT NULL,
    preview           text NOT NULL,
    why               text NOT NULL,
    -- What the answer holds for, by part.
    binding           jsonb NOT NULL,
    asked_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Null for what waits however long it takes.
    expires_at        timestamptz,
    on_expiry         text NOT NULL CHECK (on_expiry IN ('', 'reject', 'stop', 'default')),
    answer            text NOT NULL DEFAULT '' CHECK (answer IN (
                          '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed')),
    -- A question's answer, as it was given: masked, and sealed.
    reply             text NOT NULL DEFAULT '',
    reply_sealed      bytea,
    changed_arguments jsonb,
    reason            text NOT NULL DEFAULT '',
    answered_by       text NOT NULL DEFAULT '',
    answered_at       timestamptz,
    CHECK ((expires_at IS NULL) = (on_expiry = '')),
    CHECK ((state = 'open') = (answered_at IS NULL)),
    CHECK ((state = 'answered') = (answer <> '')),
    CHECK ((state = 'answered') = (answered_by <> ''))
);
CREATE UNIQUE INDEX inbox_items_open ON inbox_items (step_id) WHERE state = 'open';
CREATE INDEX inbox_items_newest ON inbox_items (org_id, asked_at DESC, id DESC);
CREATE INDEX inbox_items_of_task ON inbox_items (task_id, asked_at);
CREATE INDEX inbox_items_expiry ON inbox_items (expires_at) WHERE state = 'open';

CREATE TRIGGER inbox_items_transition BEFORE UPDATE OF state ON inbox_items
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION refuse_unknown_transition('inbox_item');

-- A task that has ended asks for nothing, however it ended.
-- +goose StatementBegin
CREATE FUNCTION withdraw_inbox_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp() WHERE task_id = NEW.id AND state = 'open';
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER tasks_withdraw AFTER UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.finished_at IS NOT NULL)
    EXECUTE FUNCTION withdraw_inbox_items();

-- +goose Down
DROP TRIGGER tasks_withdraw ON tasks;
DROP FUNCTION withdraw_inbox_items;
DROP TABLE inbox_items;
DELETE FROM transitions WHERE object = 'inbox_item' OR (object, from_state, to_state) = ('step', 'granted', 'waiting');
ALTER TABLE steps DROP COLUMN exec_id, DROP COLUMN run, DROP COLUMN granted_binding, DROP COLUMN changed_arguments,
    DROP COLUMN changed_sealed, DROP COLUMN changed_by;
