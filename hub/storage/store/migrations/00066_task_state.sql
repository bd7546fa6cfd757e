-- +goose Up

-- PostgreSQL reads the text of every CHECK of a table, and of every trigger's
-- condition, anew in each statement that writes to it. A task is written six
-- times in its shortest life, and half of that text is about its state. So the
-- function that refuses unknown moves, which is read once a connection, holds
-- what must be true of each state, too.

-- +goose StatementBegin
CREATE FUNCTION guard_task_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.state <> OLD.state THEN
        PERFORM 1 FROM transitions WHERE object = 'task' AND from_state = OLD.state AND to_state = NEW.state;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'task % may not go from % to %', OLD.id, OLD.state, NEW.state
                USING ERRCODE = 'check_violation', CONSTRAINT = 'task_transition';
        END IF;
    END IF;
    IF NOT (NEW.state IN (
                'pending', 'queued', 'starting', 'running', 'waiting', 'awaiting_approval', 'needs_input', 'paused',
                'review_needed', 'escalated', 'succeeded', 'failed', 'timed_out', 'cancelled')
            AND (NEW.state = 'running' OR NEW.reason <> '')
            AND (NEW.state <> 'queued' OR NEW.agent_id <> '')
            AND (NEW.state IN ('starting', 'running')) = (NEW.lease_hash IS NOT NULL)
            AND (NEW.state IN ('succeeded', 'failed', 'timed_out', 'cancelled')) = (NEW.finished_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'task % cannot be % with reason %, agent %, lease % and end %', NEW.id, NEW.state, quote_literal(NEW.reason),
            quote_literal(NEW.agent_id), NEW.lease_hash IS NOT NULL, NEW.finished_at
            USING ERRCODE = 'check_violation', CONSTRAINT = 'task_state';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

DROP TRIGGER tasks_transition ON tasks;
CREATE TRIGGER tasks_state BEFORE INSERT OR UPDATE OF state, reason, agent_id, lease_hash, finished_at ON tasks
    FOR EACH ROW EXECUTE FUNCTION guard_task_state();
ALTER TABLE tasks DROP CONSTRAINT tasks_state_check, DROP CONSTRAINT tasks_check, DROP CONSTRAINT tasks_check1,
    DROP CONSTRAINT tasks_check3, DROP CONSTRAINT tasks_check5;

-- +goose Down
ALTER TABLE tasks
    ADD CONSTRAINT tasks_state_check CHECK (state IN (
        'pending', 'queued', 'starting', 'running', 'waiting', 'awaiting_approval', 'needs_input', 'paused',
        'review_needed', 'escalated', 'succeeded', 'failed', 'timed_out', 'cancelled')),
    ADD CONSTRAINT tasks_check CHECK (state = 'running' OR reason <> ''),
    ADD CONSTRAINT tasks_check1 CHECK ((state IN ('starting', 'running')) = (lease_hash IS NOT NULL)),
    ADD CONSTRAINT tasks_check3 CHECK ((state IN ('succeeded', 'failed', 'timed_out', 'cancelled')) = (finished_at IS NOT NULL)),
    ADD CONSTRAINT tasks_check5 CHECK (state <> 'queued' OR agent_id <> '');
DROP TRIGGER tasks_state ON tasks;
DROP FUNCTION guard_task_state();
CREATE TRIGGER tasks_transition BEFORE UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION refuse_unknown_transition('task');
