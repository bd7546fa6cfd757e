-- name: GetTaskPlan :one
SELECT * FROM task_plans WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE;

-- name: GetTaskPlanToChange :one
-- The caller has locked the task's row. The turn is the one after which the agent was told
-- what people changed.
SELECT sqlc.embed(p), coalesce(p.told_turn, m.after_turn) AS told_after
FROM task_plans p LEFT JOIN task_messages m ON m.id = p.message_id
WHERE p.task_id = @task_id AND (p.org_id = @org_id) IS TRUE;

-- name: SetTaskPlan :one
INSERT INTO task_plans (org_id, task_id, revision, items, criteria, risks, changed_by, changes, message_id)
VALUES (@org_id, @task_id, 1, @items, @criteria, @risks, @changed_by, @changes, sqlc.narg(message_id))
ON CONFLICT (task_id) DO UPDATE SET revision = task_plans.revision + 1, items = @items, criteria = @criteria, risks = @risks,
    changed_by = @changed_by, changed_at = clock_timestamp(), changes = @changes, message_id = sqlc.narg(message_id), told_turn = NULL
RETURNING *;

-- name: TellTaskPlan :exec
-- The agent has been told in a turn what people changed.
UPDATE task_plans SET told_turn = @told_turn::int WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE;
