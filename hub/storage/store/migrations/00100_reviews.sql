-- +goose Up

-- E1: a call that would leave the workspace of a run in review mode is held until
-- a person accepts the run.
ALTER TABLE steps DROP CONSTRAINT steps_state_check, ADD CONSTRAINT steps_state_check CHECK (state IN (
    'proposed', 'denied', 'waiting', 'granted', 'started', 'succeeded', 'failed', 'unknown', 'skipped', 'cancelled', 'held'));
-- It was held, and made when somebody accepted the run.
ALTER TABLE steps ADD COLUMN released boolean NOT NULL DEFAULT false;
INSERT INTO transitions (object, from_state, to_state) VALUES
    ('step', 'held', 'started'), ('step', 'held', 'denied'), ('step', 'held', 'skipped'), ('step', 'held', 'cancelled');

-- A review, and what is escalated, is of a task and of no step.
ALTER TABLE inbox_items
    ALTER COLUMN step_id DROP NOT NULL,
    -- What a review shows.
    ADD COLUMN detail jsonb NOT NULL DEFAULT '{}',
    DROP CONSTRAINT inbox_items_kind_check,
    ADD CONSTRAINT inbox_items_kind_check CHECK (kind IN ('approval', 'question', 'unknown', 'review', 'escalation')),
    DROP CONSTRAINT inbox_items_answer_check,
    ADD CONSTRAINT inbox_items_answer_check CHECK (answer IN (
        '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed', 'suggest', 'replan', 'clarify',
        'accept', 'changes', 'close')),
    -- That what was answered is done.
    ADD COLUMN carried_at timestamptz,
    ADD CHECK ((step_id IS NULL) = (kind IN ('review', 'escalation')));
CREATE UNIQUE INDEX inbox_items_open_of_task ON inbox_items (task_id) WHERE state = 'open' AND step_id IS NULL;
CREATE INDEX inbox_items_to_carry ON inbox_items (answered_at)
    WHERE kind = 'review' AND state = 'answered' AND answer IN ('accept', 'reject') AND carried_at IS NULL;
-- Reviews of which what runs in the workspace has not been seen to end.
CREATE INDEX inbox_items_to_still ON inbox_items (asked_at) WHERE kind = 'review' AND state = 'open' AND binding = '{}';

-- A task that waits to be accepted keeps its workspace.
DROP INDEX tasks_keeping;
ALTER TABLE tasks DROP COLUMN keeps_jail, ADD COLUMN keeps_jail boolean NOT NULL GENERATED ALWAYS AS (
    started_at IS NOT NULL AND admitted_at IS NULL
    AND state IN ('queued', 'waiting', 'awaiting_approval', 'needs_input', 'paused', 'review_needed')) STORED;
CREATE INDEX tasks_keeping ON tasks (org_id) WHERE keeps_jail;

-- A task that went on, or was ended, without its item being answered asks for
-- nothing any more.
-- +goose StatementBegin
CREATE FUNCTION withdraw_task_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp()
    WHERE task_id = NEW.id AND state = 'open' AND step_id IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tasks_withdraw_own AFTER UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.state IN ('review_needed', 'escalated') AND OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION withdraw_task_items();

-- +goose Down
DROP TRIGGER tasks_withdraw_own ON tasks;
DROP FUNCTION withdraw_task_items;
DROP INDEX tasks_keeping;
ALTER TABLE tasks DROP COLUMN keeps_jail, ADD COLUMN keeps_jail boolean NOT NULL GENERATED ALWAYS AS (
    started_at IS NOT NULL AND admitted_at IS NULL
    AND state IN ('queued', 'waiting', 'awaiting_approval', 'needs_input', 'paused')) STORED;
CREATE INDEX tasks_keeping ON tasks (org_id) WHERE keeps_jail;
DELETE FROM inbox_items WHERE kind IN ('review', 'escalation');
DROP INDEX inbox_items_open_of_task, inbox_items_to_carry, inbox_items_to_still;
ALTER TABLE inbox_items ALTER COLUMN step_id SET NOT NULL, DROP COLUMN detail, DROP COLUMN carried_at,
    DROP CONSTRAINT inbox_items_kind_check,
    ADD CONSTRAINT inbox_items_kind_check CHECK (kind IN ('approval', 'question', 'unknown')),
    DROP CONSTRAINT inbox_items_answer_check,
    ADD CONSTRAINT inbox_items_answer_check CHECK (answer IN (
        '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed', 'suggest', 'replan', 'clarify'));
UPDATE steps SET state = 'skipped' WHERE state = 'held';
ALTER TABLE steps DROP COLUMN released;
DELETE FROM transitions WHERE object = 'step' AND 'held' IN (from_state, to_state);
ALTER TABLE steps DROP CONSTRAINT steps_state_check, ADD CONSTRAINT steps_state_check CHECK (state IN (
    'proposed', 'denied', 'waiting', 'granted', 'started', 'succeeded', 'failed', 'unknown', 'skipped', 'cancelled'));
