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
-- run counts when it begins, everything else when one of its attempts ends.
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

-- What a run may use of the quotas in all: granted when it is admitted, NULL for no quota.
-- What it has used of that and is in quota_usage is settled; the rest is reserved until the run
-- ends. quota_limits are the limits of the run that were lowered to the grant at its last claim.
ALTER TABLE tasks
    ADD COLUMN granted_iterations bigint,
    ADD COLUMN granted_tokens     bigint,
    ADD COLUMN granted_tool_calls bigint,
    ADD COLUMN settled_iterations bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled_tokens     bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled_tool_calls bigint NOT NULL DEFAULT 0,
    ADD COLUMN quota_limits       text[] NOT NULL DEFAULT '{}';

-- Adds what a run has used since it was last settled to the current day, when an attempt or the
-- run ends, and to the day on which the run ended what is known of its tokens only later. It is
-- done at the commit, after all locks on tasks, and the organisation's row is locked before a
-- user's, as admissions do.
-- +goose StatementBegin
CREATE FUNCTION settle_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    turns  bigint := 0;
    spent  bigint := NEW.limit_tokens - OLD.limit_tokens;
    called bigint := 0;
BEGIN
    IF OLD.finished_at IS NULL THEN
        -- The transaction may have settled the run before: its current row says so.
        SELECT greatest(NEW.iteration - NEW.resumed_at - t.settled_iterations, 0), greatest(NEW.limit_tokens - t.settled_tokens, 0),
               greatest((SELECT count(*) FROM steps s WHERE s.task_id = NEW.id AND s.started_at IS NOT NULL) - t.settled_tool_calls, 0)
        INTO turns, spent, called FROM tasks t WHERE t.id = NEW.id;
    END IF;
    IF coalesce(turns + spent + called, 0) = 0 THEN
        RETURN NULL;
    END IF;
    IF NEW.finished_at IS NULL THEN
        UPDATE tasks SET settled_iterations = settled_iterations + turns, settled_tokens = settled_tokens + spent,
            settled_tool_calls = settled_tool_calls + called WHERE id = NEW.id;
    END IF;
    INSERT INTO quota_usage AS u (org_id, user_name, day, iterations, tokens, tool_calls)
    SELECT NEW.org_id, who.name, (coalesce(NEW.finished_at, clock_timestamp()) AT TIME ZONE 'UTC')::date, turns, spent, called
    FROM (SELECT '' AS name UNION SELECT NEW.created_by) AS who
    ORDER BY who.name
    ON CONFLICT (org_id, user_name, day) DO UPDATE SET iterations = u.iterations + excluded.iterations,
        tokens = u.tokens + excluded.tokens, tool_calls = u.tool_calls + excluded.tool_calls;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER tasks_settle_quota AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.counted_in <> '' AND (OLD.lease_hash IS NOT NULL AND NEW.lease_hash IS NULL
        OR NEW.finished_at IS NOT NULL AND (OLD.finished_at IS NULL OR OLD.limit_tokens <> NEW.limit_tokens)))
    EXECUTE FUNCTION settle_quota();

-- +goose Down
DROP TRIGGER tasks_settle_quota ON tasks;
DROP FUNCTION settle_quota();
ALTER TABLE tasks DROP COLUMN granted_tool_calls, DROP COLUMN granted_tokens, DROP COLUMN granted_iterations,
    DROP COLUMN settled_tool_calls, DROP COLUMN settled_tokens, DROP COLUMN settled_iterations, DROP COLUMN quota_limits;
DROP TABLE quota_usage;
DROP TABLE quotas;
ALTER TABLE plans DROP COLUMN hard, DROP COLUMN cycle_day;
