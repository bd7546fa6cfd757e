-- name: CreateArtifactTransfer :one
INSERT INTO artifact_transfers (id, org_id, from_task_id, to_task_id, from_node_id, from_jail_id, to_node_id, to_jail_id, folder, entries, files, bytes, shared, created_by)
VALUES (@id, @org_id, @from_task_id, @to_task_id, @from_node_id, @from_jail_id, @to_node_id, @to_jail_id, @folder, @entries, @files, @bytes, @shared, @created_by)
RETURNING *;

-- name: PendingArtifacts :many
SELECT * FROM artifact_transfers WHERE org_id = @org_id AND to_task_id = @to_task_id AND state = 'pending' ORDER BY created_at, id;

-- name: ArtifactsTo :many
-- What a task was promised.
SELECT * FROM artifact_transfers WHERE org_id = @org_id AND to_task_id = @to_task_id ORDER BY created_at, id;

-- name: FinishArtifactTransfer :one
UPDATE artifact_transfers SET state = @state, to_node_id = @to_node_id, missing = @missing, finished_at = now()
WHERE org_id = @org_id AND id = @id AND state = 'pending'
RETURNING *;

-- name: ArtifactsOfTask :many
-- Transfers to and from a task, oldest first, after a keyset position.
SELECT * FROM artifact_transfers WHERE org_id = @org_id AND (to_task_id = @task_id OR from_task_id = @task_id)
  AND (sqlc.narg(after_time)::timestamptz IS NULL OR (created_at, id) > (sqlc.narg(after_time)::timestamptz, @after_id::text))
ORDER BY created_at, id LIMIT @max_rows;

-- name: LastArtifactsAt :many
-- Recent transfers into a workspace, newest first.
SELECT folder, entries FROM artifact_transfers
WHERE org_id = @org_id AND to_node_id = @to_node_id AND to_jail_id = @to_jail_id AND state = 'done'
ORDER BY finished_at DESC, id LIMIT 10;

-- name: CountTaskArtifacts :exec
UPDATE tasks SET artifact_count = artifact_count + 1 WHERE (org_id = @org_id) IS TRUE AND id = @id;
