-- name: CreateStep :one
-- Answers no row when the call has a step already.
INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments,
                   arguments_sealed, arguments_digest, reasoning, state, decision_reason, observation, error_code,
                   node_id, jail_id, outcome, started_at, finished_at)
VALUES (@id, @org_id, @task_id, @number, @turn, @call_index, @call_id, @attempt, @tool, @category, @arguments,
        @arguments_sealed, @arguments_digest, @reasoning, @state, @decision_reason, @observation, @error_code,
        sqlc.narg(node_id), @jail_id, coalesce(sqlc.narg(outcome)::jsonb, '{}'), CASE WHEN @ran::boolean THEN clock_timestamp() END,
        CASE WHEN @ended::boolean THEN clock_timestamp() END)
ON CONFLICT (task_id, turn, call_index) DO NOTHING
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
-- A grant that is bound to what was asked, or of one of some tools, starts only
-- where the caller has looked at it.
UPDATE steps SET state = 'started', started_at = clock_timestamp(), attempt = @attempt
WHERE org_id = @org_id AND id = @id AND task_id = @task_id AND state = 'granted'
  AND (@bound::boolean OR granted_binding IS NULL AND tool <> ALL (@looked_at::text[]))
RETURNING *;

-- name: EndStep :one
-- Records an outcome once: a step that has ended already, or runs again under
-- another name, answers no row. It locks the task's row first.
WITH held AS (
    SELECT t.id FROM tasks t WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE FOR UPDATE
)
UPDATE steps SET state = @state, observation = @observation, outcome = @outcome, error_code = @error_code,
    log_bytes = @log_bytes, workspace_state = sqlc.narg(workspace_state), workspace_record = @workspace_record,
    finished_at = clock_timestamp()
FROM held
WHERE steps.id = @id AND steps.task_id = held.id AND state = 'started' AND run = @run
RETURNING steps.*;

-- name: StartedExecs :many
SELECT exec_id FROM steps
WHERE id = ANY (@steps::text[]) AND org_id = @org_id AND exec_id = ANY (@ids::text[]) AND state = 'started';

-- name: NextOpenStep :one
-- The first of a task's calls that has not ended: the others wait for it.
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id
  AND state IN ('proposed', 'waiting', 'granted', 'started', 'unknown')
ORDER BY number LIMIT 1;

-- name: ResolveStep :one
-- Moves a step to where an answer takes it. again: it runs once more, under a
-- new name.
UPDATE steps SET state = @state, decision_reason = @decision_reason, observation = @observation, error_code = @error_code,
    granted_binding = sqlc.narg(granted_binding), run = run + @again::int,
    changed_arguments = coalesce(sqlc.narg(changed_arguments), changed_arguments),
    changed_sealed = coalesce(sqlc.narg(changed_sealed), changed_sealed),
    changed_by = CASE WHEN @changed_by::text <> '' THEN @changed_by ELSE changed_by END,
    started_at = CASE WHEN @state::text IN ('granted', 'waiting') THEN NULL ELSE started_at END,
    finished_at = CASE WHEN @state::text IN ('granted', 'waiting') THEN NULL ELSE clock_timestamp() END
WHERE org_id = @org_id AND id = @id AND state = @from_state
RETURNING *;

-- name: RestartStep :one
-- The node never started the command and never will under that name.
UPDATE steps SET run = run + 1 WHERE org_id = @org_id AND id = @id AND state = 'started' AND run = @run
RETURNING *;

-- name: SetCancelledStepLog :exec
-- What is known of the end of a command that was killed with its step.
UPDATE steps SET log_bytes = @log_bytes, outcome = @outcome
WHERE org_id = @org_id AND id = @id AND state = 'cancelled';

-- name: CancelSteps :many
UPDATE steps SET state = 'cancelled', decision_reason = @reason, finished_at = clock_timestamp()
WHERE org_id = @org_id AND task_id = @task_id AND state IN ('proposed', 'waiting', 'granted', 'started')
RETURNING *;

-- name: SearchSteps :many
-- The task's steps that have all the words, in lower case, in what they asked or
-- in what came of it; newest first.
SELECT id, number, turn, tool, state, arguments, observation FROM steps
WHERE org_id = @org_id AND task_id = @task_id
  AND NOT EXISTS (SELECT 1 FROM unnest(@words::text[]) AS word
                  WHERE position(word IN lower(arguments::text || ' ' || observation)) = 0)
ORDER BY number DESC LIMIT @max_rows;
