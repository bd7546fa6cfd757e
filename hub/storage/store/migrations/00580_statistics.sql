-- +goose Up

-- What a task is counted under in statistics: what its submitter or its persona says, else
-- its agent's name. Empty for tasks of before.
ALTER TABLE agent_versions ADD COLUMN task_type text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tasks
    ADD COLUMN task_type    text COLLATE "C" NOT NULL DEFAULT '',
    -- Milliseconds spent in each of the seven phases, in their order; empty until the first
    -- iteration has ended.
    ADD COLUMN phase_ms     bigint[] NOT NULL DEFAULT '{}',
    -- How often it was tried again after a failure.
    ADD COLUMN retries      int NOT NULL DEFAULT 0,
    -- Its calls that were denied.
    ADD COLUMN denied_calls int NOT NULL DEFAULT 0,
    -- Tokens as limits.tokens counts them: those that were read from the cache at their share
    -- of the price.
    ADD COLUMN limit_tokens bigint NOT NULL DEFAULT 0;

-- Returns the sums of two lists of numbers, place by place.
-- +goose StatementBegin
CREATE FUNCTION added(a bigint[], b bigint[]) RETURNS bigint[] IMMUTABLE LANGUAGE sql AS $$
    SELECT CASE WHEN coalesce(cardinality(b), 0) = 0 THEN a WHEN cardinality(a) = 0 THEN b
        ELSE ARRAY(SELECT coalesce(x, 0) + coalesce(y, 0) FROM unnest(a, b) WITH ORDINALITY AS u(x, y, n) ORDER BY n) END
$$;
-- +goose StatementEnd

-- Counts the calls of a task that are denied. Who denies one has locked the task's row.
-- +goose StatementBegin
CREATE FUNCTION count_denied_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tasks SET denied_calls = denied_calls + 1 WHERE id = NEW.task_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER steps_created_denied AFTER INSERT ON steps FOR EACH ROW
    WHEN (NEW.state = 'denied') EXECUTE FUNCTION count_denied_call();
CREATE TRIGGER steps_denied AFTER UPDATE OF state ON steps FOR EACH ROW
    WHEN (NEW.state = 'denied' AND OLD.state <> 'denied') EXECUTE FUNCTION count_denied_call();

-- +goose Down
DROP TRIGGER steps_denied ON steps;
DROP TRIGGER steps_created_denied ON steps;
DROP FUNCTION count_denied_call();
DROP FUNCTION added(bigint[], bigint[]);
ALTER TABLE tasks DROP COLUMN limit_tokens, DROP COLUMN denied_calls, DROP COLUMN retries, DROP COLUMN phase_ms, DROP COLUMN task_type;
ALTER TABLE agent_versions DROP COLUMN task_type;
