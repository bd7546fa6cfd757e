-- name: CreateStep :one
-- Returns no row if the call has a step already. The caller has locked the
-- task's row in an earlier statement: steps are numbered from the last one. One that
-- would run on a node (on_node) whose lock another agent's task holds stays granted.
INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments,
                   arguments_sealed, arguments_digest, reasoning, state, decision_reason, observation, error_code,
                   node_id, jail_id, decision, outcome, checkpoint, started_at, finished_at)
VALUES (@id, @org_id, @task_id, (SELECT coalesce(max(s.number), 0) + 1 FROM steps s WHERE s.task_id = @task_id), @turn, @call_index, @call_id, @attempt, @tool, @category, @arguments,
        @arguments_sealed, @arguments_digest, @reasoning,
        CASE WHEN @state::text = 'started' AND @on_node::boolean AND node_held_by_other(sqlc.narg(node_id), @task_id) THEN 'granted' ELSE @state::text END, @decision_reason, @observation, @error_code,
        sqlc.narg(node_id), @jail_id, coalesce(sqlc.narg(decision)::jsonb, '{}'), coalesce(sqlc.narg(outcome)::jsonb, '{}'), @checkpoint,
        CASE WHEN @ran::boolean AND NOT (@state::text = 'started' AND @on_node::boolean AND node_held_by_other(sqlc.narg(node_id), @task_id)) THEN clock_timestamp() END,
        CASE WHEN @ended::boolean THEN clock_timestamp() END)
ON CONFLICT (task_id, turn, call_index) DO NOTHING
RETURNING *;

-- name: StepByCall :one
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id AND turn = @turn AND call_index = @call_index;

-- name: GetStep :one
SELECT * FROM steps WHERE org_id = @org_id AND id = @id;

-- name: FindSteps :many
SELECT s.id, (s.id = @ref)::boolean AS exact FROM steps s JOIN tasks t ON t.id = s.task_id
WHERE s.org_id = @org_id AND (s.id = @ref OR s.id LIKE @prefix) AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
ORDER BY exact DESC, s.id LIMIT 2;

-- name: StepsUpTo :many
-- A task's steps up to a turn.
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id AND turn <= @up_to ORDER BY number;

-- name: ListSteps :many
-- A page of a task's steps, after a number, or of one step alone, with the
-- columns that are shown. The page ends with the step that brings it to so many
-- bytes; found is how many there would be otherwise.
SELECT s.id, s.task_id, s.number, s.turn, s.call_index, s.call_id, s.attempt, s.tool, s.category, s.arguments, s.reasoning, s.state,
       s.decision_reason, s.observation, s.outcome, s.error_code, s.node_id, s.log_bytes, s.proposed_at, s.started_at, s.finished_at, s.exec_id,
       s.changed_arguments, s.changed_by, s.decision, page.found
FROM (SELECT sized.id, count(*) OVER ()::int AS found, sum(sized.bytes) OVER (ORDER BY sized.number) - sized.bytes AS before
      FROM (SELECT c.id, c.number, octet_length(c.arguments::text) + coalesce(octet_length(c.changed_arguments::text), 0) + octet_length(c.reasoning)
                   + octet_length(c.observation) + octet_length(c.outcome::text) + octet_length(c.decision::text) AS bytes
            FROM steps c WHERE c.org_id = @org_id AND c.task_id = @task_id AND c.number > @after_number
              AND (@step_id::text = '' OR c.id = @step_id)
            ORDER BY c.number LIMIT @max_rows) AS sized) AS page
JOIN steps s ON s.id = page.id
WHERE page.before < @max_bytes::bigint
ORDER BY s.number;

-- name: StartStep :one
-- Starts a granted step, or with released a deferred one. The caller has
-- verified that it may: by the grant's binding, or by the review's verdict. One that runs
-- on a node (on_node) does not start while another agent's task holds the node's lock.
UPDATE steps SET state = 'started', started_at = clock_timestamp(), finished_at = NULL,
    attempt = CASE WHEN @released::boolean THEN attempt ELSE @attempt END, released = released OR @released
WHERE org_id = @org_id AND id = @id AND task_id = @task_id
  AND state = CASE WHEN @released THEN 'deferred' ELSE 'granted' END
  AND NOT (@on_node::boolean AND node_held_by_other(node_id, task_id))
RETURNING *;

-- name: EndStep :one
-- Stores an outcome once: returns no row for a step that has ended already, or
-- runs again under another exec id. It locks the task's row first.
WITH held AS (
    SELECT t.id FROM tasks t WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE FOR UPDATE
)
UPDATE steps SET state = @state, observation = @observation, outcome = @outcome, error_code = @error_code,
    log_bytes = @log_bytes, workspace_state = sqlc.narg(workspace_state), workspace_record = @workspace_record,
    finished_at = clock_timestamp()
FROM held
WHERE steps.id = @id AND steps.task_id = held.id AND state = 'started' AND run = @run
RETURNING steps.*;

-- name: GrantLeasedStep :one
-- Stores a step that is granted without conditions, and starts it if the call
-- is made at once, with its events, in its own transaction. Returns no row if
-- the call has a step already, another step was stored while this one waited
-- for the task's row, a pause before the next call was requested, the lease
-- has ended, or it runs on a node (on_node) whose lock another agent's task holds.
WITH held AS (
    SELECT t.id, t.org_id, t.correlation_id, t.attempt, t.node_id, t.jail_id FROM tasks t
    WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE AND t.attempt = @attempt AND t.lease_hash = @lease_hash
      AND t.lease_expires_at > clock_timestamp() AND t.pause_next = ''
      AND NOT (@state::text = 'started' AND @on_node::boolean AND node_held_by_other(t.node_id, t.id))
    FOR UPDATE
), created AS (
    INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments,
                       arguments_sealed, arguments_digest, reasoning, state, decision_reason, decision, node_id, jail_id,
                       started_at)
    SELECT @id, held.org_id, held.id, (SELECT coalesce(max(s.number), 0) + 1 FROM steps s WHERE s.task_id = @task_id), @turn, @call_index, @call_id, held.attempt, @tool, @category, @arguments,
           @arguments_sealed, @arguments_digest, @reasoning, @state, @decision_reason, @decision, held.node_id, held.jail_id,
           CASE WHEN @state = 'started' THEN clock_timestamp() END
    FROM held
    ON CONFLICT DO NOTHING
    RETURNING steps.number, steps.proposed_at, steps.started_at
)
SELECT created.number, created.proposed_at, created.started_at,
       append_events_of(held.id, held.org_id, held.attempt, held.correlation_id, 'hub', 'hub', @types::text[], @payloads::text[],
                        jsonb_build_object('number', created.number)) AS seq
FROM held, created;

-- name: StartLeasedStep :one
-- Starts a step that is granted without conditions, and stores its event, in
-- its own transaction. Returns no row if it cannot be started, or the lease has
-- ended.
WITH held AS (
    SELECT t.id, t.org_id, t.correlation_id, t.attempt FROM tasks t
    WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE AND t.attempt = @attempt AND t.lease_hash = @lease_hash
      AND t.lease_expires_at > clock_timestamp()
    FOR UPDATE
), started AS (
    UPDATE steps SET state = 'started', started_at = clock_timestamp(), attempt = held.attempt FROM held
    WHERE steps.org_id = held.org_id AND steps.id = @id AND steps.task_id = held.id AND steps.state = 'granted'
      AND steps.granted_binding IS NULL AND NOT (@on_node::boolean AND node_held_by_other(steps.node_id, steps.task_id))
    RETURNING steps.started_at
)
SELECT started.started_at,
       append_events_of(held.id, held.org_id, held.attempt, held.correlation_id, 'hub', 'hub', ARRAY['tool_executing'], ARRAY[@payload::text], '{}') AS seq
FROM held, started;

-- name: SetStepWait :exec
-- Says why a granted step does not start yet.
UPDATE steps SET decision_reason = @reason WHERE org_id = @org_id AND id = @id AND state = 'granted' AND decision_reason <> @reason;

-- name: EndStepAlone :one
-- As EndStep, with its event, in its own transaction. The event's duration is
-- computed with the database's clock.
WITH held AS (
    SELECT t.id, t.org_id, t.correlation_id, t.attempt FROM tasks t
    WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE FOR UPDATE
), ended AS (
    UPDATE steps SET state = @state, observation = @observation, outcome = @outcome, error_code = @error_code,
        log_bytes = @log_bytes, workspace_state = sqlc.narg(workspace_state), workspace_record = @workspace_record,
        finished_at = clock_timestamp()
    FROM held
    WHERE steps.id = @id AND steps.task_id = held.id AND steps.state = 'started' AND steps.run = @run
    RETURNING steps.started_at, steps.finished_at
)
SELECT ended.finished_at,
       append_events_of(held.id, held.org_id, held.attempt, held.correlation_id, 'hub', 'hub', ARRAY['tool_completed'], ARRAY[@payload::text],
                        jsonb_build_object('duration_ms', round(extract(epoch FROM ended.finished_at - ended.started_at) * 1000)::bigint)) AS seq
FROM held, ended;

-- name: LeasedStep :one
-- A step with its task, if the task's lease is live.
SELECT sqlc.embed(steps), sqlc.embed(tasks) FROM tasks JOIN steps ON steps.org_id = tasks.org_id AND steps.task_id = tasks.id
WHERE tasks.id = @task_id AND (tasks.org_id = @org_id) IS TRUE AND tasks.attempt = @attempt AND tasks.lease_hash = @lease_hash
  AND tasks.lease_expires_at > clock_timestamp() AND steps.id = @id;

-- name: StepStands :one
-- The run of a started step, if its task's lease is live.
SELECT steps.run FROM tasks JOIN steps ON steps.org_id = tasks.org_id AND steps.task_id = tasks.id
WHERE tasks.id = @task_id AND (tasks.org_id = @org_id) IS TRUE AND tasks.attempt = @attempt AND tasks.lease_hash = @lease_hash
  AND tasks.lease_expires_at > clock_timestamp() AND steps.id = @id AND steps.state = 'started';

-- name: StartedExecs :many
SELECT exec_id FROM steps
WHERE id = ANY (@steps::text[]) AND org_id = @org_id AND exec_id = ANY (@ids::text[]) AND state = 'started';

-- name: NextOpenStep :one
-- The first of a task's calls that has not ended: the others wait for it.
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id
  AND state IN ('proposed', 'waiting', 'granted', 'started', 'unknown')
ORDER BY number LIMIT 1;

-- name: ResolveStep :one
-- Moves a step to the state that follows from a decision. again: it runs once
-- more, under the next exec id.
UPDATE steps SET state = @state, decision_reason = @decision_reason, observation = @observation, error_code = @error_code,
    granted_binding = sqlc.narg(granted_binding), run = run + @again::int,
    changed_arguments = coalesce(sqlc.narg(changed_arguments), changed_arguments),
    changed_sealed = coalesce(sqlc.narg(changed_sealed), changed_sealed),
    changed_by = CASE WHEN @changed_by::text <> '' THEN @changed_by ELSE changed_by END,
    started_at = CASE WHEN @state::text IN ('granted', 'waiting') THEN NULL ELSE started_at END,
    finished_at = CASE WHEN @state::text IN ('granted', 'waiting') THEN NULL ELSE clock_timestamp() END
WHERE org_id = @org_id AND id = @id AND state = @from_state
RETURNING *;

-- name: SkipLaterSteps :many
-- Skips the calls of a turn that come after one and have not begun, and withdraws
-- what waits for a person about them.
WITH skipped AS (
    UPDATE steps s SET state = 'skipped', decision_reason = @reason, observation = @observation, finished_at = clock_timestamp()
    WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.turn = @turn AND s.call_index > @call_index AND s.state IN ('waiting', 'granted')
    RETURNING s.id, s.org_id, s.number, s.tool
), withdrawn AS (
    UPDATE inbox_items i SET state = 'withdrawn', answered_at = clock_timestamp()
    FROM skipped WHERE i.org_id = skipped.org_id AND i.step_id = skipped.id AND i.state = 'open'
)
SELECT skipped.id, skipped.number, skipped.tool FROM skipped ORDER BY skipped.number;

-- name: RestartStep :one
-- The node never started the command and never will under that exec id.
UPDATE steps SET run = run + 1 WHERE org_id = @org_id AND id = @id AND state = 'started' AND run = @run
RETURNING *;

-- name: SetCancelledStepLog :exec
-- What is known of the end of a command that was cancelled with its step; once. It locks the
-- task's row first.
WITH held AS (
    SELECT t.id FROM tasks t WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE FOR UPDATE
)
UPDATE steps SET log_bytes = @log_bytes, outcome = @outcome, log_due = false, log_stored_at = clock_timestamp()
FROM held
WHERE steps.id = @id AND steps.task_id = held.id AND steps.log_due;

-- name: DueStepLogs :many
-- The cancelled steps of a node of whose commands' end nothing is stored yet.
SELECT * FROM steps WHERE org_id = @org_id AND node_id = @node_id::text AND log_due AND id > @after_id
ORDER BY id LIMIT @max_rows;

-- name: CancelSteps :many
UPDATE steps SET state = 'cancelled', decision_reason = @reason, finished_at = clock_timestamp(),
    log_due = state = 'started' AND node_id IS NOT NULL
WHERE org_id = @org_id AND task_id = @task_id AND state IN ('proposed', 'waiting', 'granted', 'started')
RETURNING *;

-- name: SearchSteps :many
-- The task's steps whose arguments or result contain all the words, in lower
-- case; newest first.
SELECT id, number, turn, tool, state, arguments, observation FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND tool <> @not_of
  AND NOT EXISTS (SELECT 1 FROM unnest(@words::text[]) AS word
                  WHERE position(word IN lower(arguments::text || ' ' || observation)) = 0)
ORDER BY number DESC LIMIT @max_rows;

-- name: CurrentStep :one
-- The call of a task that runs, or else the newest that has not ended. A call in the state unknown
-- has not ended: a person has to say how it did.
SELECT s.id, s.number, s.tool, s.state, coalesce(s.changed_arguments, s.arguments)::jsonb AS arguments,
       coalesce(s.started_at, s.proposed_at)::timestamptz AS since
FROM steps s WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.state IN ('proposed', 'waiting', 'granted', 'started', 'unknown')
ORDER BY s.state = 'started' DESC, s.number DESC LIMIT 1;

-- name: StepLog :one
-- Whether all is there that a step's command has written, and how many bytes.
SELECT whole::boolean AS whole, log_bytes::bigint AS log_bytes FROM step_logs WHERE org_id = @org_id AND id = @id;

-- name: TaskLogs :many
-- The logs of a task's commands that are whole, in the order in which that was stored, after
-- a position.
SELECT id, number, tool, exec_id, node_id::text AS node_id, log_bytes::bigint AS log_bytes, started_at, whole_at::timestamptz AS whole_at
FROM step_logs
WHERE org_id = @org_id AND task_id = @task_id AND whole AND log_bytes > 0
  AND (whole_at, number) > (@after_time::timestamptz, @after_number::int)
ORDER BY whole_at, number LIMIT @max_rows;

-- name: UnfinishedLogs :one
-- Whether a log of a task is not whole, and may become so.
SELECT EXISTS (SELECT 1 FROM step_logs l JOIN nodes n ON n.id = l.node_id
               WHERE l.org_id = @org_id AND l.task_id = @task_id AND NOT l.whole AND n.revoked_at IS NULL)::boolean;

-- name: LongOutputs :many
-- A task's commands that wrote more than some bytes, newest first.
SELECT id, number, turn, tool, state, exec_id, node_id, log_bytes FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND exec_id <> '' AND node_id IS NOT NULL AND log_bytes > @more_than
ORDER BY number DESC LIMIT @max_rows;

-- name: ToldInstructions :many
-- The files of instructions that results of a task's steps have told, but for those that a
-- summary has replaced.
SELECT jsonb_array_elements_text(s.outcome->'instructions')::text FROM steps s
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.outcome ? 'instructions'
  AND s.turn > coalesce((SELECT (c.state->'summary'->>'up_to')::int FROM checkpoints c
                       WHERE c.org_id = @org_id AND c.task_id = @task_id AND c.phase = 'iterate' ORDER BY c.iteration DESC LIMIT 1), 0);

-- name: CallsBeside :many
-- The calls of a turn before one that run or are about to.
SELECT * FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND turn = @turn AND call_index < @call_index AND state IN ('granted', 'started')
ORDER BY call_index;

-- name: SetAskedWorkspace :execrows
-- Records the state of the workspace while a task waits for an approval; the
-- attempt identifies the wait.
UPDATE steps SET asked_state = @state::bigint, asked_record = @record
FROM tasks t
WHERE steps.org_id = @org_id AND steps.task_id = @task_id AND steps.state = 'waiting'
  AND t.id = steps.task_id AND t.state = 'awaiting_approval' AND t.attempt = @attempt
  AND (NOT CAST(@first AS boolean) OR steps.asked_state IS NULL);

-- name: SetLookedAt :exec
-- Records the state of the workspace when a call is approved for which none is
-- recorded.
UPDATE steps SET asked_state = CAST(@state AS bigint), asked_record = @record
WHERE org_id = @org_id AND id = @id AND state = 'waiting' AND asked_state IS NULL;

-- name: GrantedAsAsked :many
-- The calls of a task that were approved for a state of its workspace.
SELECT id, asked_state::bigint AS state, asked_record AS record FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND state = 'granted' AND granted_binding IS NOT NULL AND asked_state IS NOT NULL
ORDER BY number;

-- name: ForgetAskedWorkspace :exec
UPDATE steps SET asked_state = NULL, asked_record = '' WHERE org_id = @org_id AND id = @id;

-- name: SkipOpenSteps :many
-- Skips a task's calls that have not begun.
UPDATE steps SET state = 'skipped', decision_reason = @reason, observation = @observation, finished_at = clock_timestamp()
WHERE org_id = @org_id AND task_id = @task_id AND state IN ('proposed', 'granted')
RETURNING id, number, turn, tool;

-- name: StartedSteps :many
-- A task's calls that run.
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id AND state = 'started' ORDER BY number;

-- name: CountCalls :one
-- The calls of a task that were made, or will be.
SELECT count(*)::bigint FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND (started_at IS NOT NULL OR state IN ('proposed', 'waiting', 'granted'));

-- name: RunningCommands :many
-- The steps of some tasks that run on a node.
SELECT id, task_id, number, exec_id, node_id::text AS node_id, started_at::timestamptz AS started_at FROM steps
WHERE org_id = @org_id AND task_id = ANY (@task_ids::text[]) AND state = 'started' AND node_id IS NOT NULL
ORDER BY task_id, number LIMIT @max_rows;
