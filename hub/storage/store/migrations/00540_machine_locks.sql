-- +goose Up
-- An agent's task may hold the lock of a node, for a limited time, to work on the machine
-- itself. A task holds one lock at a time.
ALTER TABLE node_locks
    ADD COLUMN task_id    text COLLATE "C" REFERENCES tasks (id),
    ADD COLUMN step_id    text COLLATE "C",
    ADD COLUMN expires_at timestamptz,
    -- Not everybody in the organisation sees the agent: texts for all do not name it.
    ADD COLUMN agent_hidden boolean NOT NULL DEFAULT false,
    ADD CHECK ((task_id IS NULL) = (step_id IS NULL)),
    ADD CHECK ((task_id IS NULL) = (expires_at IS NULL)),
    ADD CHECK (task_id IS NULL OR exec_id IS NULL);
CREATE UNIQUE INDEX node_locks_of_task ON node_locks (task_id) WHERE released_at IS NULL;
CREATE UNIQUE INDEX node_locks_of_step ON node_locks (step_id);
CREATE INDEX node_locks_expiry ON node_locks (expires_at) WHERE released_at IS NULL AND expires_at IS NOT NULL;

-- +goose StatementBegin
-- Reports whether another agent's task holds the lock of a node: commands of other tasks
-- do not start there meanwhile.
CREATE FUNCTION node_held_by_other(node text, task text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM node_locks l
                   WHERE l.node_id = node AND l.released_at IS NULL AND l.task_id <> task AND l.expires_at > now())
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- A task's lock ends with the task, however that ends.
CREATE FUNCTION release_task_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE node_locks SET released_at = now(), released_by = 'the end of its task'
    WHERE task_id = NEW.id AND released_at IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tasks_release_lock AFTER UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.state IN ('succeeded', 'failed', 'timed_out', 'cancelled'))
    EXECUTE FUNCTION release_task_lock();

-- A command that an agent runs on a machine is a step of its task.
ALTER TABLE node_execs ADD COLUMN step_id text COLLATE "C";
CREATE INDEX node_execs_of_step ON node_execs (step_id) WHERE step_id IS NOT NULL;

-- +goose Down
DROP INDEX node_execs_of_step;
ALTER TABLE node_execs DROP COLUMN step_id;
DROP TRIGGER tasks_release_lock ON tasks;
DROP FUNCTION release_task_lock();
DROP FUNCTION node_held_by_other(text, text);
DELETE FROM node_locks WHERE task_id IS NOT NULL;
DROP INDEX node_locks_expiry, node_locks_of_step, node_locks_of_task;
ALTER TABLE node_locks DROP COLUMN task_id, DROP COLUMN step_id, DROP COLUMN expires_at, DROP COLUMN agent_hidden;
