-- +goose Up

-- The day of the month on which a billing period begins, and whether a submission is refused
-- when no run is left, in place of waiting in the queue.
ALTER TABLE plans
    ADD COLUMN cycle_day int NOT NULL DEFAULT 1 CHECK (cycle_day BETWEEN 1 AND 28),
    ADD COLUMN hard      boolean NOT NULL DEFAULT false;

-- What may be used in a billing period, in addition to the plan: by the organisation
-- (user_name is empty), by each user (*), or by one user in place of that. NULL for no limit.
CREATE TABLE quotas (
    org_id     text COLLATE "C" NOT NULL,
    user_name  text COLLATE "C" NOT NULL,
    runs       bigint CHECK (runs > 0),
    iterations bigint CHECK (iterations > 0),
    tokens     bigint CHECK (tokens > 0),
    tool_calls bigint CHECK (tool_calls > 0),
    PRIMARY KEY (org_id, user_name)
);

-- What was used on a day (UTC), by a user and by the organisation (user_name is empty). A
-- run counts when it begins, everything else when the run ends.
CREATE TABLE quota_usage (
    org_id     text COLLATE "C" NOT NULL,
    user_name  text COLLATE "C" NOT NULL,
    day        date NOT NULL,
    runs       bigint NOT NULL DEFAULT 0,
    iterations bigint NOT NULL DEFAULT 0,
    tokens     bigint NOT NULL DEFAULT 0,
    tool_calls bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, user_name, day)
);
INSERT INTO quota_usage (org_id, user_name, day, runs) SELECT org_id, '', to_date(period, 'YYYY-MM'), runs FROM plan_periods;

-- What a run may use of the quotas: reserved when it is admitted, NULL for no quota.
ALTER TABLE tasks
    ADD COLUMN granted_iterations bigint,
    ADD COLUMN granted_tokens     bigint,
    ADD COLUMN granted_tool_calls bigint;

-- Adds what a run has used to the day on which it ended, and what is known of its tokens
-- only later. It is done at the commit, after all locks on tasks, and the organisation's row is
-- locked before a user's, as admissions do.
-- +goose StatementBegin
CREATE FUNCTION settle_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ended  boolean := OLD.finished_at IS NULL;
    turns  bigint := CASE WHEN ended THEN greatest(NEW.iteration - NEW.resumed_at, 0) ELSE 0 END;
    spent  bigint := NEW.limit_tokens - CASE WHEN ended THEN 0 ELSE OLD.limit_tokens END;
    called bigint := 0;
BEGIN
    IF ended THEN
        SELECT count(*) INTO called FROM steps s WHERE s.task_id = NEW.id AND s.started_at IS NOT NULL;
    END IF;
    IF turns = 0 AND spent = 0 AND called = 0 THEN
        RETURN NULL;
    END IF;
    INSERT INTO quota_usage AS u (org_id, user_name, day, iterations, tokens, tool_calls)
    SELECT NEW.org_id, who.name, (NEW.finished_at AT TIME ZONE 'UTC')::date, turns, spent, called
    FROM (SELECT '' AS name UNION SELECT NEW.created_by) AS who
    ORDER BY who.name
    ON CONFLICT (org_id, user_name, day) DO UPDATE SET iterations = u.iterations + excluded.iterations,
        tokens = u.tokens + excluded.tokens, tool_calls = u.tool_calls + excluded.tool_calls;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER tasks_settle_quota AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.finished_at IS NOT NULL AND NEW.counted_in <> '' AND (OLD.finished_at IS NULL OR OLD.limit_tokens <> NEW.limit_tokens))
    EXECUTE FUNCTION settle_quota();

-- +goose Down
DROP TRIGGER tasks_settle_quota ON tasks;
DROP FUNCTION settle_quota();
ALTER TABLE tasks DROP COLUMN granted_tool_calls, DROP COLUMN granted_tokens, DROP COLUMN granted_iterations;
DROP TABLE quota_usage;
DROP TABLE quotas;
ALTER TABLE plans DROP COLUMN hard, DROP COLUMN cycle_day;
