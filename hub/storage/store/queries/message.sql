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
WHERE task_messages.org_id = @org_id AND task_messages.task_id = @task_id AND after_turn IS NULL
  AND withdrawn_at IS NULL;

-- name: MessagesAfter :many
SELECT * FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND after_turn = @after_turn::int ORDER BY number;

-- name: BoundMessages :many
-- The messages that the model got before or with its turn up_to.
SELECT * FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND after_turn < @up_to::int ORDER BY after_turn, number;

-- name: WithdrawMessage :one
-- Takes back a person's message that waits for its turn, and returns its id; without an id
-- the newest one. The caller has locked the task's row. Returns no row if no such message
-- waits.
WITH withdrawn AS (
    UPDATE task_messages SET withdrawn_at = clock_timestamp()
    WHERE task_messages.id = (SELECT m.id FROM task_messages m
                WHERE m.org_id = @org_id AND m.task_id = @task_id AND m.after_turn IS NULL AND m.withdrawn_at IS NULL
                  AND m.said_by <> 'hub' AND (@id::text = '' OR m.id = @id)
                ORDER BY m.number DESC LIMIT 1)
    RETURNING task_messages.id, task_messages.task_id
), counted AS (
    UPDATE tasks SET messages_waiting = messages_waiting - 1 FROM withdrawn
    WHERE tasks.org_id = @org_id AND tasks.id = withdrawn.task_id
)
SELECT withdrawn.id FROM withdrawn;

-- name: CountProgramMessages :one
-- The messages of programs to a task: how many wait for their turn and how many bytes these
-- have, and how many one sender has sent at all.
SELECT count(*) FILTER (WHERE after_turn IS NULL AND withdrawn_at IS NULL) AS waiting,
       coalesce(sum(octet_length(content)) FILTER (WHERE after_turn IS NULL AND withdrawn_at IS NULL), 0)::bigint AS waiting_bytes,
       count(*) FILTER (WHERE said_by = @said_by) AS sent
FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND starts_with(said_by, @programs::text);

-- name: MessageKeepsTask :one
-- Whether a message waits for its turn that a task goes on for: one that no program sent.
SELECT EXISTS (SELECT 1 FROM task_messages
    WHERE org_id = @org_id AND task_id = @task_id AND after_turn IS NULL AND withdrawn_at IS NULL AND NOT starts_with(said_by, @programs::text));

-- name: GetMessage :one
SELECT * FROM task_messages WHERE org_id = @org_id AND task_id = @task_id AND id = @id AND said_by <> 'hub';
