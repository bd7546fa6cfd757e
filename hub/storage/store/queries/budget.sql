-- name: LockBudgets :exec
-- Each change of an organisation's accounts takes this lock first. It is not a
-- row lock: the first of an organisation's changes has no row to lock, and
-- another hub's may come between.
SELECT pg_advisory_xact_lock(hashtextextended('budgets:' || @org_id::text, 0));

-- name: OpenModelCalls :many
-- Of the calls, those that are not settled.
SELECT id, reserved_micros, scopes, objects, periods FROM model_calls
WHERE org_id = @org_id AND id = ANY (@ids::text[]) AND basis = 'reserved';

-- name: BudgetAccounts :many
-- Accounts as they are, or as they would be created, and the limits that people
-- have set for them.
SELECT a.scope::text AS scope, a.object_id::text AS object_id, a.period::text AS period,
       coalesce(b.spent_micros, 0)::bigint AS spent_micros, coalesce(b.reserved_micros, 0)::bigint AS reserved_micros,
       b.limit_micros, b.warned_at_limit, (s.scope IS NOT NULL)::bool AS is_set, s.limit_micros AS set_micros
FROM (SELECT unnest(@scopes::text[]) AS scope, unnest(@objects::text[]) AS object_id, unnest(@periods::text[]) AS period) AS a
LEFT JOIN budget_accounts b ON b.org_id = @org_id AND b.scope = a.scope AND b.object_id = a.object_id AND b.period = a.period
LEFT JOIN budgets s ON s.org_id = @org_id AND s.scope = a.scope AND s.object_id = a.object_id
    AND s.every = CASE length(a.period) WHEN 0 THEN '' WHEN length('2006-01') THEN 'month' ELSE 'day' END;

-- name: PutBudgetAccounts :exec
-- A negative limit means no limit.
INSERT INTO budget_accounts (org_id, scope, object_id, period, spent_micros, reserved_micros, limit_micros, warned_at_limit)
SELECT @org_id, a.scope, a.object_id, a.period, a.spent, a.reserved, nullif(a.most, -1), nullif(a.warned, -1)
FROM (SELECT unnest(@scopes::text[]) AS scope, unnest(@objects::text[]) AS object_id, unnest(@periods::text[]) AS period,
             unnest(@spent::bigint[]) AS spent, unnest(@reserved::bigint[]) AS reserved,
             unnest(@limits::bigint[]) AS most, unnest(@warned::bigint[]) AS warned) AS a
ON CONFLICT (org_id, scope, object_id, period) DO UPDATE SET spent_micros = excluded.spent_micros,
    reserved_micros = excluded.reserved_micros, limit_micros = excluded.limit_micros, warned_at_limit = excluded.warned_at_limit;

-- name: PutModelCall :exec
INSERT INTO model_calls (id, org_id, task_id, attempt, user_name, provider, model, reserved_micros, estimated_tokens, scopes, objects, periods, lost_at)
VALUES (@id, @org_id, @task_id, @attempt, @user_name, @provider, @model, @amount, @estimated_tokens, @scopes, @objects, @periods,
        clock_timestamp() + @lost_after::interval);

-- name: SettleModelCall :exec
UPDATE model_calls SET basis = @basis, cost_micros = @cost_micros, input_tokens = @input_tokens, output_tokens = @output_tokens,
    cache_read_tokens = @cache_read_tokens, cache_write_tokens = @cache_write_tokens, limit_tokens = @limit_tokens, settled_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND basis = 'reserved';

-- name: LostModelCalls :many
SELECT id, org_id, task_id FROM model_calls WHERE basis = 'reserved' AND lost_at < clock_timestamp() ORDER BY lost_at LIMIT @max_rows;

-- name: PruneModelCalls :exec
-- Deletes old calls of the hub's own, of which the accounts keep the sum.
DELETE FROM model_calls WHERE task_id = '' AND settled_at < clock_timestamp() - @keep::interval;

-- name: BindModelCalls :one
-- Assigns the settled calls of a task that belong to no turn yet to a turn.
WITH bound AS (
    UPDATE model_calls SET turn = @turn::int
    WHERE org_id = @org_id AND task_id = @task_id AND turn IS NULL AND basis <> 'reserved'
    RETURNING *
)
SELECT count(*)::bigint AS calls, coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(cache_read_tokens), 0)::bigint AS cache_read_tokens, coalesce(sum(cache_write_tokens), 0)::bigint AS cache_write_tokens,
       coalesce(sum(cost_micros), 0)::bigint AS cost_micros, coalesce(sum(limit_tokens), 0)::bigint AS limit_tokens
FROM bound;

-- name: UncountedTasks :many
-- Tasks that have ended, and whose calls were settled after that: those that
-- were in progress when the task was killed, and those that were lost.
SELECT DISTINCT t.org_id, t.id FROM model_calls c JOIN tasks t ON t.id = c.task_id
WHERE c.turn IS NULL AND c.basis <> 'reserved' AND t.finished_at IS NOT NULL LIMIT @max_rows;

-- name: TaskAncestors :many
-- A task's parents, the nearest first, and the first task of its lineage.
WITH RECURSIVE chain AS (
    SELECT t.id, t.parent_id, t.agent_id, t.agent_version, t.override, 0 AS depth FROM tasks t WHERE t.org_id = @org_id AND t.id = @id
    UNION ALL
    SELECT t.id, t.parent_id, t.agent_id, t.agent_version, t.override, c.depth + 1
    FROM chain c JOIN tasks t ON t.id = c.parent_id WHERE t.org_id = @org_id AND c.depth < 64
)
SELECT id, agent_id, agent_version, override, depth::int AS depth FROM chain WHERE depth > 0
UNION ALL
SELECT t.id, t.agent_id, t.agent_version, t.override, -1 FROM tasks t WHERE t.org_id = @org_id AND t.id = @lineage_id
ORDER BY depth;

-- name: SetBudget :exec
INSERT INTO budgets (org_id, scope, object_id, every, limit_micros, set_by)
VALUES (@org_id, @scope, @object_id, @every, sqlc.narg(limit_micros), @set_by)
ON CONFLICT (org_id, scope, object_id, every) DO UPDATE SET limit_micros = excluded.limit_micros, set_by = excluded.set_by, set_at = excluded.set_at;

-- name: ClearBudget :exec
DELETE FROM budgets WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND every = @every;

-- name: ListBudgets :many
-- The limits that were set, except for the organisation's own, after a keyset
-- position.
SELECT * FROM budgets WHERE org_id = @org_id AND scope <> 'organisation' AND (scope, object_id, every) > (@after_scope::text, @after_object::text, @after_every::text)
ORDER BY scope, object_id, every LIMIT @max_rows;

-- name: GetBudget :one
SELECT * FROM budgets WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND every = @every;

-- name: GetBudgetAccount :one
SELECT * FROM budget_accounts WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND period = @period;

-- name: UsageReport :many
-- The cost of calls in a period, grouped by one dimension. Those of the hub's own have no task:
-- their agent is "(hub)".
SELECT (CASE @by::text WHEN 'agent' THEN coalesce(a.name, '(hub)') WHEN 'user' THEN c.user_name WHEN 'model' THEN c.provider || '/' || c.model
            WHEN 'hour' THEN to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')
            WHEN 'day' THEN to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
            WHEN 'month' THEN to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM') WHEN 'task' THEN coalesce(nullif(c.task_id, ''), '(hub)') ELSE '' END)::text AS key,
       (CASE @split::text WHEN 'agent' THEN coalesce(a.name, '(hub)') WHEN 'user' THEN c.user_name WHEN 'model' THEN c.provider || '/' || c.model ELSE '' END)::text AS part,
       count(*)::bigint AS calls, count(DISTINCT nullif(c.task_id, ''))::bigint AS tasks, count(*) FILTER (WHERE c.basis IN ('estimated', 'lost'))::bigint AS estimated,
       sum(c.input_tokens)::bigint AS input_tokens, sum(c.output_tokens)::bigint AS output_tokens,
       sum(c.cache_read_tokens)::bigint AS cache_read_tokens, sum(c.cache_write_tokens)::bigint AS cache_write_tokens,
       sum(c.cost_micros)::bigint AS cost_micros
FROM model_calls c LEFT JOIN tasks t ON t.id = c.task_id LEFT JOIN agents a ON a.id = t.agent_id
WHERE c.org_id = @org_id AND c.started_at >= @since AND c.started_at < @until AND c.basis <> 'reserved'
  AND (sqlc.narg(user_name)::text IS NULL OR c.user_name = sqlc.narg(user_name))
GROUP BY key, part
ORDER BY CASE WHEN @by IN ('hour', 'day', 'month') THEN 0 ELSE sum(c.cost_micros) END DESC, key DESC, sum(c.cost_micros) DESC, part LIMIT @max_rows;
