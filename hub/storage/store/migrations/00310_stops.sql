-- +goose NO TRANSACTION
-- Agents wait for the items of a large inbox while hubs are updated: no statement here holds the
-- table for longer than a moment. Each is on its own, and may be run again after an attempt that
-- was interrupted.

-- +goose Up

-- Stops: what keeps work from going on, and is no call of an agent. A stop is about a
-- subject, such as a budget, and belongs to a task or to none.
ALTER TABLE inbox_items
    DROP CONSTRAINT IF EXISTS inbox_items_task_id_fkey,
    -- task_id is empty for items of no task; task_ref is NULL then.
    ADD COLUMN IF NOT EXISTS task_ref text COLLATE "C",
    -- What a stop is about; empty for other items. At most one stop is open for each.
    ADD COLUMN IF NOT EXISTS subject text COLLATE "C" NOT NULL DEFAULT '',
    -- What made it, such as the version of a credential: a dismissed stop comes again
    -- only for another cause.
    ADD COLUMN IF NOT EXISTS cause text COLLATE "C" NOT NULL DEFAULT '',
    DROP CONSTRAINT IF EXISTS inbox_items_task_ref_fkey,
    DROP CONSTRAINT IF EXISTS inbox_items_kind_check,
    DROP CONSTRAINT IF EXISTS inbox_items_answer_check,
    DROP CONSTRAINT IF EXISTS inbox_items_check4,
    DROP CONSTRAINT IF EXISTS inbox_items_step,
    DROP CONSTRAINT IF EXISTS inbox_items_subject,
    DROP CONSTRAINT IF EXISTS inbox_items_task,
    ADD CONSTRAINT inbox_items_task_ref_fkey FOREIGN KEY (task_ref) REFERENCES tasks (id) NOT VALID,
    ADD CONSTRAINT inbox_items_kind_check CHECK (kind IN (
        'approval', 'question', 'unknown', 'review', 'escalation', 'limit', 'budget', 'suspended', 'egress', 'provider', 'credential')) NOT VALID,
    ADD CONSTRAINT inbox_items_answer_check CHECK (answer IN (
        '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed', 'suggest', 'replan', 'clarify',
        'accept', 'changes', 'close', 'raise', 'allow', 'resume', 'dismiss')) NOT VALID,
    ADD CONSTRAINT inbox_items_step CHECK ((step_id IS NOT NULL) = (kind IN ('approval', 'question', 'unknown'))) NOT VALID,
    ADD CONSTRAINT inbox_items_subject CHECK (
        (subject <> '') = (kind IN ('limit', 'budget', 'suspended', 'egress', 'provider', 'credential'))) NOT VALID,
    ADD CONSTRAINT inbox_items_task CHECK (task_id <> '' OR subject <> '') NOT VALID;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION inbox_item_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.task_ref := nullif(NEW.task_id, '');
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER inbox_items_task_ref BEFORE INSERT OR UPDATE OF task_id, task_ref ON inbox_items
    FOR EACH ROW EXECUTE FUNCTION inbox_item_task();

-- +goose StatementBegin
DO $$
DECLARE
    done text := '';
    upto text;
BEGIN
    LOOP
        SELECT max(id) INTO upto FROM (SELECT id FROM inbox_items WHERE id > done ORDER BY id LIMIT 5000) AS batch;
        EXIT WHEN upto IS NULL;
        UPDATE inbox_items SET task_ref = task_id WHERE id > done AND id <= upto AND task_ref IS NULL AND task_id <> '';
        COMMIT;
        done := upto;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- These read the table, and let others write to it.
ALTER TABLE inbox_items VALIDATE CONSTRAINT inbox_items_task_ref_fkey;
ALTER TABLE inbox_items VALIDATE CONSTRAINT inbox_items_kind_check;
ALTER TABLE inbox_items VALIDATE CONSTRAINT inbox_items_answer_check;
ALTER TABLE inbox_items VALIDATE CONSTRAINT inbox_items_step;
ALTER TABLE inbox_items VALIDATE CONSTRAINT inbox_items_subject;
ALTER TABLE inbox_items VALIDATE CONSTRAINT inbox_items_task;

-- An index that an interrupted attempt left is not valid, and the one before is needed until the
-- new one is there.
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_open_of_task_new;
CREATE UNIQUE INDEX CONCURRENTLY inbox_items_open_of_task_new ON inbox_items (task_id) WHERE state = 'open' AND kind IN ('review', 'escalation');
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_open_of_task;
ALTER INDEX inbox_items_open_of_task_new RENAME TO inbox_items_open_of_task;
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_open_of_subject;
CREATE UNIQUE INDEX CONCURRENTLY inbox_items_open_of_subject ON inbox_items (org_id, kind, subject) WHERE state = 'open' AND subject <> '';
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_dismissed;
CREATE INDEX CONCURRENTLY inbox_items_dismissed ON inbox_items (org_id, kind, subject, cause, answered_at) WHERE answer = 'dismiss';

-- Paused tasks that wait for a stop to be answered.
CREATE TABLE IF NOT EXISTS stopped_tasks (
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    kind       text NOT NULL CHECK (kind IN ('budget', 'provider')),
    subject    text COLLATE "C" NOT NULL CHECK (subject <> ''),
    stopped_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS stopped_tasks_of_subject ON stopped_tasks (org_id, kind, subject);

-- The budget that had too little left for a task's last call.
CREATE TABLE IF NOT EXISTS budget_refusals (
    task_id       text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id        text COLLATE "C" NOT NULL REFERENCES organisations (id),
    scope         text NOT NULL,
    object_id     text COLLATE "C" NOT NULL,
    period        text NOT NULL,
    limit_micros  bigint NOT NULL,
    spent_micros  bigint NOT NULL,
    -- What the call may cost.
    amount_micros bigint NOT NULL,
    refused_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Withdraws the open stop of a subject, with an audit entry.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdraw_stop(org text, what text, about text, why text) RETURNS bigint LANGUAGE sql AS $$
    WITH withdrawn AS (
        UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp()
        WHERE org_id = org AND kind = what AND subject = about AND state = 'open'
        RETURNING *
    ), logged AS (
        INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason)
        SELECT org_id, 'hub', 'hub', 'inbox.withdrawn', 'inbox_item', id,
               jsonb_build_object('kind', kind, 'task_id', task_id, 'subject', subject, 'preview', preview),
               jsonb_build_object('state', state), why
        FROM withdrawn
    )
    SELECT count(*) FROM withdrawn
$$;
-- +goose StatementEnd

-- Reports whether a provider's key was refused or has expired.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION key_ended(org text, name text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (SELECT 1 FROM credentials c WHERE c.org_id = org AND c.provider = name
                   AND (c.refused_at IS NOT NULL OR NOT c.login AND c.expires_at <= clock_timestamp()))
$$;
-- +goose StatementEnd

-- A task that goes on, or has ended, waits for no stop. One that no task waits for any
-- more is withdrawn.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION leave_stop() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was stopped_tasks;
    why text := 'task ' || NEW.id || ' is ' || NEW.state;
BEGIN
    DELETE FROM budget_refusals WHERE task_id = NEW.id;
    PERFORM withdraw_stop(NEW.org_id, 'limit', NEW.id, why);
    DELETE FROM stopped_tasks WHERE task_id = NEW.id RETURNING * INTO was;
    IF FOUND AND NOT EXISTS (SELECT 1 FROM stopped_tasks s WHERE s.org_id = was.org_id AND s.kind = was.kind AND s.subject = was.subject)
       AND NOT (was.kind = 'provider' AND key_ended(was.org_id, was.subject)) THEN
        PERFORM withdraw_stop(was.org_id, was.kind, was.subject, why);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER tasks_leave_stop AFTER UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.state = 'paused' AND NEW.state <> 'paused')
    EXECUTE FUNCTION leave_stop();

-- A task's end, and its leaving review_needed and escalated, withdraw no stops: those of
-- an agent, a budget or a host outlive it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdraw_inbox_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH withdrawn AS (
        UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp() WHERE task_id = NEW.id AND state = 'open' AND subject = ''
        RETURNING *
    )
    INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason)
    SELECT org_id, 'hub', 'hub', 'inbox.withdrawn', 'inbox_item', id,
           jsonb_build_object('kind', kind, 'task_id', task_id, 'step_id', step_id, 'tool', tool, 'preview', preview),
           jsonb_build_object('state', state), 'its task has ended'
    FROM withdrawn;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION withdraw_task_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp()
    WHERE task_id = NEW.id AND state = 'open' AND kind IN ('review', 'escalation');
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Reports whether somebody sees an item: of a task, whoever sees the task; of no task,
-- the agent's owner and whoever sees a task that waits for it. Administrators, who see
-- all items, do not come here.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION inbox_seen(org text, what text, about text, task text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND CASE WHEN task <> ''
        THEN EXISTS (SELECT 1 FROM tasks t WHERE t.id = task AND task_seen(t.created_by, t.assignee, t.agent_id, who))
        ELSE EXISTS (SELECT 1 FROM agents a WHERE a.id = agent AND a.owner = who)
            OR EXISTS (SELECT 1 FROM stopped_tasks s JOIN tasks t ON t.id = s.task_id
                       WHERE s.org_id = org AND s.kind = what AND s.subject = about AND task_seen(t.created_by, t.assignee, t.agent_id, who))
        END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS inbox_seen;
DROP TRIGGER IF EXISTS tasks_leave_stop ON tasks;
DROP FUNCTION IF EXISTS leave_stop, key_ended, withdraw_stop;
DROP TABLE IF EXISTS stopped_tasks, budget_refusals;
DELETE FROM inbox_items WHERE subject <> '';
DROP INDEX IF EXISTS inbox_items_open_of_subject, inbox_items_dismissed, inbox_items_open_of_task;
CREATE UNIQUE INDEX inbox_items_open_of_task ON inbox_items (task_id) WHERE state = 'open' AND step_id IS NULL;
DROP TRIGGER IF EXISTS inbox_items_task_ref ON inbox_items;
DROP FUNCTION IF EXISTS inbox_item_task;
ALTER TABLE inbox_items
    DROP CONSTRAINT IF EXISTS inbox_items_step, DROP CONSTRAINT IF EXISTS inbox_items_subject, DROP CONSTRAINT IF EXISTS inbox_items_task,
    DROP COLUMN IF EXISTS task_ref, DROP COLUMN IF EXISTS subject, DROP COLUMN IF EXISTS cause,
    ADD CONSTRAINT inbox_items_task_id_fkey FOREIGN KEY (task_id) REFERENCES tasks (id),
    ADD CONSTRAINT inbox_items_check4 CHECK ((step_id IS NULL) = (kind IN ('review', 'escalation'))),
    DROP CONSTRAINT IF EXISTS inbox_items_kind_check,
    ADD CONSTRAINT inbox_items_kind_check CHECK (kind IN ('approval', 'question', 'unknown', 'review', 'escalation')),
    DROP CONSTRAINT IF EXISTS inbox_items_answer_check,
    ADD CONSTRAINT inbox_items_answer_check CHECK (answer IN (
        '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed', 'suggest', 'replan', 'clarify', 'accept', 'changes', 'close'));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdraw_inbox_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH withdrawn AS (
        UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp() WHERE task_id = NEW.id AND state = 'open'
        RETURNING *
    )
    INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason)
    SELECT org_id, 'hub', 'hub', 'inbox.withdrawn', 'inbox_item', id,
           jsonb_build_object('kind', kind, 'task_id', task_id, 'step_id', step_id, 'tool', tool, 'preview', preview),
           jsonb_build_object('state', state), 'its task has ended'
    FROM withdrawn;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION withdraw_task_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp()
    WHERE task_id = NEW.id AND state = 'open' AND step_id IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
