-- name: CreateCheckpoint :execrows
INSERT INTO checkpoints (task_id, iteration, org_id, attempt, state)
VALUES (@task_id, @iteration, @org_id, @attempt, @state)
ON CONFLICT (task_id, iteration) DO NOTHING;

-- name: NewestCheckpoint :one
SELECT * FROM checkpoints WHERE org_id = @org_id AND task_id = @task_id ORDER BY iteration DESC LIMIT 1;

-- name: GetCheckpoint :one
-- One that has not expired; iteration 0 is the newest.
SELECT c.* FROM checkpoints c JOIN tasks t ON t.id = c.task_id
WHERE c.org_id = @org_id AND c.task_id = @task_id AND (@iteration::int = 0 OR c.iteration = @iteration)
  AND (c.expires_at > now() OR t.finished_at IS NULL)
ORDER BY c.iteration DESC LIMIT 1;

-- name: ListCheckpoints :many
-- Newest first, those before an iteration; 0 for all.
SELECT iteration, reason, created_at, expires_at FROM checkpoints
WHERE org_id = @org_id AND task_id = @task_id AND (@before::int = 0 OR iteration < @before::int) ORDER BY iteration DESC LIMIT @max_rows;

-- name: KeepCheckpoint :one
-- Extends the time for which it is kept; never shortens it.
UPDATE checkpoints SET reason = @reason, expires_at = greatest(expires_at, now() + @keep_for::interval)
WHERE org_id = @org_id AND task_id = @task_id AND iteration = @iteration
RETURNING iteration, reason, created_at, expires_at;

-- name: CopyCheckpoint :execrows
INSERT INTO checkpoints (task_id, iteration, org_id, attempt, state)
SELECT @task_id::text, o.iteration, o.org_id, o.attempt, o.state FROM checkpoints o
WHERE o.org_id = @org_id AND o.task_id = @origin_id AND o.iteration = @iteration;

-- name: ExpireCheckpoints :execrows
-- Deletes all but the newest one, which is all that a resumed task needs.
DELETE FROM checkpoints c
WHERE c.expires_at < now()
  AND NOT (EXISTS (SELECT 1 FROM tasks t WHERE t.id = c.task_id AND t.finished_at IS NULL)
           AND NOT EXISTS (SELECT 1 FROM checkpoints n WHERE n.task_id = c.task_id AND n.iteration > c.iteration));
