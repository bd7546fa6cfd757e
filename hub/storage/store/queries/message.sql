-- name: CreateMessage :one
-- Returns no row if the idempotency key is taken.
INSERT INTO task_messages (id, org_id, task_id, content, said_by, idempotency_key)
VALUES (@id, @org_id, @task_id, @content, @said_by, sqlc.narg(idempotency_key))
ON CONFLICT (task_id, idempotency_key) DO NOTHING
RETURNING *;

-- name: MessageByKey :one
SELECT * FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND idempotency_key = @idempotency_key;

-- name: CountMessage :exec
UPDATE tasks SET messages_waiting = messages_waiting + 1 WHERE org_id = @org_id AND id = @id;

-- name: BindMessages :exec
-- Binds a task's waiting messages to that turn.
WITH told AS (
    UPDATE tasks SET messages_waiting = 0 WHERE tasks.org_id = @org_id AND tasks.id = @task_id
)
UPDATE task_messages SET after_turn = @after_turn::int
WHERE task_messages.org_id = @org_id AND task_messages.task_id = @task_id AND after_turn IS NULL;

-- name: MessagesAfter :many
SELECT * FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND after_turn = @after_turn::int ORDER BY number;

-- name: BoundMessages :many
-- The messages that the model got before or with its turn up_to.
SELECT * FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND after_turn < @up_to::int ORDER BY after_turn, number;
