-- name: CreateKillOrder :one
INSERT INTO kill_orders (id, org_id, task_id, node_id, jail_id, step_ids, ordered_by)
VALUES (@id, @org_id, @task_id, @node_id, @jail_id, @step_ids, @ordered_by)
RETURNING *;

-- name: OpenKillOrders :many
-- Those that a node has not confirmed; node_id '' is every node.
SELECT * FROM kill_orders
WHERE org_id = @org_id AND (@node_id::text = '' OR node_id = @node_id) AND confirmed_at IS NULL
ORDER BY ordered_at, id LIMIT @max_rows;

-- name: OpenKillOrdersOf :many
-- Those of tasks, and of a scope's tasks that have ended; '' for no scope.
SELECT k.* FROM kill_orders k JOIN tasks t ON t.id = k.task_id
WHERE k.org_id = @org_id AND k.confirmed_at IS NULL
  AND (k.task_id = ANY (@task_ids::text[]) OR t.agent_id = @agent_id::text OR t.trigger_id = @trigger_id::text
       OR t.lineage_id = @lineage_id::text)
ORDER BY k.id;

-- name: OrganisationsWithKillOrders :many
SELECT DISTINCT org_id FROM kill_orders WHERE confirmed_at IS NULL;

-- name: ConfirmKillOrder :exec
UPDATE kill_orders SET confirmed_at = now(), problem = '' WHERE org_id = @org_id AND id = @id AND confirmed_at IS NULL;

-- name: SetKillProblem :exec
UPDATE kill_orders SET problem = @problem WHERE org_id = @org_id AND id = @id AND confirmed_at IS NULL;

-- name: JailUser :one
-- Another task that may have something running in the jail.
SELECT id FROM tasks
WHERE org_id = @org_id AND jail_id = @jail_id AND id <> @task_id
  AND (lease_hash IS NOT NULL OR started_at IS NOT NULL AND finished_at IS NULL AND state NOT IN ('escalated', 'review_needed'))
LIMIT 1;

-- name: LastContact :one
SELECT coalesce(greatest(n.last_seen_at, s.touched_at), n.created_at)::timestamptz
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id WHERE n.org_id = @org_id AND n.id = @id;
