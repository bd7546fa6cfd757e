-- name: CreateStep :one
INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments,
                   arguments_sealed, arguments_digest, reasoning, state, decision_reason, observation, error_code,
                   node_id, jail_id, finished_at)
VALUES (@id, @org_id, @task_id, @number, @turn, @call_index, @call_id, @attempt, @tool, @category, @arguments,
        @arguments_sealed, @arguments_digest, @reasoning, @state, @decision_reason, @observation, @error_code,
        sqlc.narg(node_id), @jail_id, sqlc.narg(finished_at))
RETURNING *;

-- name: StepByCall :one
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id AND turn = @turn AND call_index = @call_index;

-- name: GetStep :one
SELECT * FROM steps WHERE org_id = @org_id AND id = @id;

-- name: FindSteps :many
SELECT id, (id = @ref)::boolean AS exact FROM steps WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: ListSteps :many
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id ORDER BY number;

-- name: StartStep :one
UPDATE steps SET state = 'started', started_at = clock_timestamp(), attempt = @attempt
WHERE org_id = @org_id AND id = @id AND state = 'granted'
RETURNING *;

-- name: EndStep :one
-- Records an outcome once: a step that has ended already answers no row.
UPDATE steps SET state = @state, observation = @observation, outcome = @outcome, error_code = @error_code,
    log_bytes = @log_bytes, finished_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state = 'started'
RETURNING *;

-- name: StartedSteps :many
SELECT id FROM steps WHERE org_id = @org_id AND id = ANY (@ids::text[]) AND state = 'started';

-- name: SetCancelledStepLog :exec
-- What is known of the end of a command that was killed with its step.
UPDATE steps SET log_bytes = @log_bytes, outcome = @outcome
WHERE org_id = @org_id AND id = @id AND state = 'cancelled';

-- name: CancelSteps :many
UPDATE steps SET state = 'cancelled', decision_reason = @reason, finished_at = clock_timestamp()
WHERE org_id = @org_id AND task_id = @task_id AND state IN ('proposed', 'waiting', 'granted', 'started')
RETURNING *;
