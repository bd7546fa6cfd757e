-- name: CreateTask :one
INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, priority, workspace_scope,
                   jail_id, created_by, created_by_role, idempotency_key, correlation_id, input_count, queued_at)
VALUES (@id, @org_id, @agent_id, @agent_version, @title, @goal, 'queued', @reason, @priority, @workspace_scope,
        @jail_id, @created_by, @created_by_role, sqlc.narg(idempotency_key), @correlation_id, @input_count, clock_timestamp())
ON CONFLICT (org_id, idempotency_key) DO NOTHING
RETURNING *;

-- name: TaskByIdempotencyKey :one
SELECT * FROM tasks WHERE org_id = @org_id AND idempotency_key = @idempotency_key;

-- name: CreateTaskInput :exec
INSERT INTO task_inputs (task_id, path, org_id, content) VALUES (@task_id, @path, @org_id, @content);

-- name: TaskInputs :many
SELECT path, content FROM task_inputs WHERE org_id = @org_id AND task_id = @task_id ORDER BY path;

-- name: FindTasks :many
SELECT id, (id = @ref)::boolean AS exact FROM tasks WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: GetTask :one
SELECT sqlc.embed(t), a.name AS agent_name, v.provider, v.model
FROM tasks t JOIN agents a ON a.id = t.agent_id
JOIN agent_versions v ON v.agent_id = t.agent_id AND v.version = t.agent_version
WHERE t.org_id = @org_id AND t.id = @id;

-- name: ListTasks :many
-- Newest first, after a keyset position; NULL filters match all.
SELECT sqlc.embed(t), a.name AS agent_name, v.provider, v.model
FROM tasks t JOIN agents a ON a.id = t.agent_id
JOIN agent_versions v ON v.agent_id = t.agent_id AND v.version = t.agent_version
WHERE t.org_id = @org_id
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(states)::text[] IS NULL OR t.state = ANY (sqlc.narg(states)::text[]))
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (t.created_at, t.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY t.created_at DESC, t.id DESC LIMIT @max_rows;

-- name: QueuePosition :one
-- How many tasks that are not admitted stand before that place in the queue;
-- it counts no further than max_rows.
SELECT count(*) FROM (
    SELECT 1 FROM tasks
    WHERE org_id = @org_id AND state = 'queued' AND admitted_at IS NULL
      AND (priority > @priority OR (priority = @priority AND (queued_at, id) < (@queued_at::timestamptz, @id::text)))
    LIMIT @max_rows) AS ahead;

-- name: LockTask :one
SELECT * FROM tasks WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: LockLeasedTask :one
-- The task, if that lease on it is live on the database's clock.
SELECT * FROM tasks
WHERE org_id = @org_id AND id = @id AND attempt = @attempt AND lease_hash = @lease_hash
  AND lease_expires_at > clock_timestamp()
FOR UPDATE;

-- name: GetLeasedTask :one
-- As LockLeasedTask, for readers.
SELECT * FROM tasks
WHERE id = @id AND attempt = @attempt AND lease_hash = @lease_hash AND lease_expires_at > clock_timestamp();

-- name: MoveTask :one
-- Changes the state; a move to anything but starting or running ends the lease.
UPDATE tasks SET
    state = @state, reason = @reason,
    lease_hash = CASE WHEN @state::text IN ('starting', 'running') THEN lease_hash END,
    lease_expires_at = CASE WHEN @state::text IN ('starting', 'running') THEN lease_expires_at END,
    admitted_at = CASE WHEN @state::text IN ('starting', 'running') THEN admitted_at END,
    queued_at = CASE WHEN @state::text = 'queued' THEN clock_timestamp() ELSE queued_at END,
    started_at = CASE WHEN @state::text = 'running' THEN coalesce(started_at, clock_timestamp()) ELSE started_at END,
    finished_at = CASE WHEN @state::text IN ('succeeded', 'failed', 'timed_out', 'cancelled') THEN clock_timestamp() END
WHERE org_id = @org_id AND id = @id
RETURNING *;

-- name: SetTaskResult :exec
UPDATE tasks SET summary = @summary, error_code = @error_code, error_message = @error_message,
    progress = CASE WHEN @done::boolean THEN 1 ELSE progress END
WHERE org_id = @org_id AND id = @id;

-- name: CountWorkerLoss :exec
UPDATE tasks SET worker_losses = worker_losses + 1 WHERE org_id = @org_id AND id = @id;

-- name: AddTaskUsage :exec
UPDATE tasks SET turn_count = greatest(turn_count, @turn::int),
    input_tokens = input_tokens + @input_tokens, output_tokens = output_tokens + @output_tokens,
    cache_read_tokens = cache_read_tokens + @cache_read_tokens,
    cache_write_tokens = cache_write_tokens + @cache_write_tokens,
    cost_micros = cost_micros + @cost_micros
WHERE org_id = @org_id AND id = @id;

-- name: SetTaskProgress :exec
UPDATE tasks SET iteration = greatest(iteration, @iteration::int), progress = @progress, worker_losses = 0
WHERE org_id = @org_id AND id = @id;

-- name: CountTaskStep :one
UPDATE tasks SET step_count = step_count + 1 WHERE org_id = @org_id AND id = @id RETURNING step_count;

-- name: CreateTurn :execrows
INSERT INTO turns (task_id, turn, org_id, attempt, content, sealed)
VALUES (@task_id, @turn, @org_id, @attempt, @content, @sealed)
ON CONFLICT (task_id, turn) DO NOTHING;

-- name: GetTurn :one
SELECT * FROM turns WHERE org_id = @org_id AND task_id = @task_id AND turn = @turn;

-- name: ListTurns :many
SELECT * FROM turns WHERE org_id = @org_id AND task_id = @task_id ORDER BY turn;

-- name: CreateCheckpoint :execrows
INSERT INTO checkpoints (task_id, iteration, org_id, attempt, state)
VALUES (@task_id, @iteration, @org_id, @attempt, @state)
ON CONFLICT (task_id, iteration) DO NOTHING;

-- name: NewestCheckpoint :one
SELECT * FROM checkpoints WHERE org_id = @org_id AND task_id = @task_id ORDER BY iteration DESC LIMIT 1;
