-- name: ReserveModelCall :one
SELECT reserve_model_call(
    @id::text, @org_id::text, @task_id::text, @attempt::int, @user_name::text, @provider::text, @model::text, @amount::bigint,
    clock_timestamp() + @lost_after::interval, @scopes::text[], @objects::text[], @periods::text[], @everys::text[], @defaults::bigint[]
)::jsonb AS answer;

-- name: SettleModelCall :one
SELECT settle_model_call(
    @id::text, @org_id::text, @basis::text, @cost_micros::bigint, @input_tokens::bigint, @output_tokens::bigint,
    @cache_read_tokens::bigint, @cache_write_tokens::bigint
)::jsonb AS warnings;

-- name: LostModelCalls :many
SELECT id, org_id, task_id FROM model_calls WHERE basis = 'reserved' AND lost_at < clock_timestamp() ORDER BY lost_at LIMIT @max_rows;

-- name: BindModelCalls :one
-- The settled calls of a task that belong to no turn yet become those of one.
WITH bound AS (
    UPDATE model_calls SET turn = @turn::int
    WHERE org_id = @org_id AND task_id = @task_id AND turn IS NULL AND basis <> 'reserved'
    RETURNING *
)
SELECT count(*)::bigint AS calls, coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(cache_read_tokens), 0)::bigint AS cache_read_tokens, coalesce(sum(cache_write_tokens), 0)::bigint AS cache_write_tokens,
       coalesce(sum(cost_micros), 0)::bigint AS cost_micros
FROM bound;

-- name: TaskAncestors :many
-- A task's parents, the nearest first, and the first task of its lineage.
WITH RECURSIVE chain AS (
    SELECT t.id, t.parent_id, t.agent_id, t.agent_version, 0 AS depth FROM tasks t WHERE t.org_id = @org_id AND t.id = @id
    UNION ALL
    SELECT t.id, t.parent_id, t.agent_id, t.agent_version, c.depth + 1
    FROM chain c JOIN tasks t ON t.id = c.parent_id WHERE t.org_id = @org_id AND c.depth < 64
)
SELECT id, agent_id, agent_version, depth::int AS depth FROM chain WHERE depth > 0
UNION ALL
SELECT t.id, t.agent_id, t.agent_version, -1 FROM tasks t WHERE t.org_id = @org_id AND t.id = @lineage_id
ORDER BY depth;

-- name: SetBudget :exec
INSERT INTO budgets (org_id, scope, object_id, every, limit_micros, set_by)
VALUES (@org_id, @scope, @object_id, @every, sqlc.narg(limit_micros), @set_by)
ON CONFLICT (org_id, scope, object_id, every) DO UPDATE SET limit_micros = excluded.limit_micros, set_by = excluded.set_by, set_at = excluded.set_at;

-- name: ClearBudget :exec
DELETE FROM budgets WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND every = @every;

-- name: ListBudgets :many
SELECT * FROM budgets WHERE org_id = @org_id ORDER BY scope, object_id, every;

-- name: GetBudget :one
SELECT * FROM budgets WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND every = @every;

-- name: GetBudgetAccount :one
SELECT * FROM budget_accounts WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND period = @period;
