-- A task is looked up by its id. Its organisation is compared as (org_id =
-- @org_id) IS TRUE, which no index supports: as long as the database has no
-- statistics, it takes an index of the organisation's tasks for as good as the
-- one of the ids, and searches it from end to end.

-- name: CreateTask :one
-- Returns no row if the idempotency key is taken, or a hold is active.
INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, priority, workspace_scope,
                   jail_id, node_id, created_by, created_by_role, idempotency_key, correlation_id, input_count, queued_at,
                   lineage_id, trigger_id, origin_id, override, resumed_at, iteration, turn_count,
                   share, context, conversation, assignee, assigned_by, assigned_at, traceparent,
                   parent_id, parent_step_id, handed_from, manifest, image, image_digest, devcontainer, resumed_turn, task_type)
SELECT @id::text, @org_id::text, @agent_id::text, @agent_version::int, @title::text, @goal::text, @state::text, @reason::text,
       @priority::int, @workspace_scope::text, @jail_id::text, sqlc.narg(node_id)::text, @created_by::text,
       @created_by_role::text, sqlc.narg(idempotency_key)::text, @correlation_id::text, @input_count::int,
       CASE WHEN @state::text = 'queued' THEN clock_timestamp() END, @lineage_id::text, @trigger_id::text, sqlc.narg(origin_id)::text, @override::jsonb,
       @resumed_at::int, @resumed_at::int, (@resumed_at::int) + (@resumed_turn::boolean)::int,
       @created_by::text, @context::text, @conversation::jsonb, @assignee::text, @created_by::text, clock_timestamp(), @traceparent::text,
       sqlc.narg(parent_id)::text, sqlc.narg(parent_step_id)::text, sqlc.narg(handed_from)::text, sqlc.narg(manifest)::jsonb,
       @image::text, @image_digest::text, @devcontainer::jsonb, @resumed_turn::boolean,
       coalesce(nullif(@task_type::text, ''), (SELECT coalesce(nullif(v.task_type, ''), a.name) FROM agents a
           LEFT JOIN agent_versions v ON v.agent_id = a.id AND v.version = @agent_version::int WHERE a.id = @agent_id::text), '')
WHERE NOT held(@org_id::text, @agent_id::text, @trigger_id::text, @lineage_id::text)
ON CONFLICT (org_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING *;

-- name: PinTaskImage :one
-- Keeps the digest that an attempt before resolved for the same name.
UPDATE tasks SET image = @image, devcontainer = @devcontainer,
                 image_digest = CASE WHEN image = @image::text THEN image_digest ELSE @image_digest::text END
WHERE org_id = @org_id AND id = @id RETURNING *;

-- name: TaskByIdempotencyKey :one
SELECT * FROM tasks WHERE org_id = @org_id AND idempotency_key = @idempotency_key;

-- name: CreateTaskInput :exec
INSERT INTO task_inputs (task_id, path, org_id, content) VALUES (@task_id, @path, @org_id, coalesce(@content::bytea, ''));

-- name: TaskInputs :many
SELECT path, content FROM task_inputs WHERE org_id = @org_id AND task_id = @task_id ORDER BY path;

-- name: FindTasks :many
SELECT id, (id = @ref)::boolean AS exact FROM tasks WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
  AND (@sees_all::boolean OR task_seen(org_id, created_by, assignee, agent_id, @viewer::text))
ORDER BY exact DESC, id LIMIT 2;

-- name: TaskSeen :one
-- Whether a user sees a task; no row if there is no such task.
SELECT (@sees_all::boolean OR task_seen(org_id, created_by, assignee, agent_id, @viewer::text))::boolean FROM tasks WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: TaskOwned :one
-- Whether a task is a user's; no row if there is no such task.
SELECT (@sees_all::boolean OR task_owned(created_by, assignee, agent_id, @viewer::text))::boolean FROM tasks WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: GetTask :one
SELECT sqlc.embed(t), coalesce(a.name, '')::text AS agent_name, coalesce(t.override ->> 'provider', v.provider, '')::text AS provider,
       CASE WHEN t.override ? 'provider' THEN coalesce(t.override ->> 'model', '') ELSE coalesce(v.model, '') END::text AS model,
       coalesce((SELECT h.seq FROM event_heads h WHERE h.task_id = t.id), 0)::bigint AS event_seq
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id
LEFT JOIN agent_versions v ON v.agent_id = t.agent_id AND v.version = t.agent_version
WHERE t.id = @id AND (t.org_id = @org_id) IS TRUE;

-- name: ListTasks :many
-- Newest first, after a keyset position; NULL filters match all.
SELECT sqlc.embed(t), coalesce(a.name, '')::text AS agent_name, coalesce(t.override ->> 'provider', v.provider, '')::text AS provider,
       CASE WHEN t.override ? 'provider' THEN coalesce(t.override ->> 'model', '') ELSE coalesce(v.model, '') END::text AS model,
       coalesce((SELECT h.seq FROM event_heads h WHERE h.task_id = t.id), 0)::bigint AS event_seq
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id
LEFT JOIN agent_versions v ON v.agent_id = t.agent_id AND v.version = t.agent_version
WHERE t.org_id = @org_id
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(states)::text[] IS NULL OR t.state = ANY (sqlc.narg(states)::text[]))
  AND (sqlc.narg(parent_id)::text IS NULL OR t.parent_id = sqlc.narg(parent_id))
  AND (sqlc.narg(lineage_id)::text IS NULL OR t.lineage_id = sqlc.narg(lineage_id))
  AND (sqlc.narg(words)::text[] IS NULL OR NOT EXISTS (
       SELECT 1 FROM unnest(sqlc.narg(words)::text[]) AS w(word)
       WHERE strpos(lower(concat_ws(' ', t.title, t.goal, t.summary)), w.word) = 0))
  AND (sqlc.narg(created_from)::timestamptz IS NULL OR t.created_at >= sqlc.narg(created_from)::timestamptz)
  AND (sqlc.narg(created_before)::timestamptz IS NULL OR t.created_at < sqlc.narg(created_before)::timestamptz)
  AND (NOT @chat::bool OR t.override ? 'chat')
  AND (sqlc.narg(created_by)::text IS NULL OR t.created_by = sqlc.narg(created_by))
  AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (t.created_at, t.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY t.created_at DESC, t.id DESC LIMIT @max_rows;

-- name: LockTask :one
SELECT * FROM tasks WHERE id = @id AND (org_id = @org_id) IS TRUE FOR UPDATE;

-- name: LockLeasedTask :one
-- The task, if that lease on it is live by the database's clock.
SELECT * FROM tasks
WHERE id = @id AND (org_id = @org_id) IS TRUE AND attempt = @attempt AND lease_hash = @lease_hash
  AND lease_expires_at > clock_timestamp()
FOR UPDATE;

-- name: GetLeasedTask :one
-- As LockLeasedTask, for readers.
SELECT * FROM tasks
WHERE id = @id AND attempt = @attempt AND lease_hash = @lease_hash AND lease_expires_at > clock_timestamp();

-- name: MoveTask :one
-- Changes the state; a move to any state other than starting or running ends
-- the lease. NULL fields of the run's result are not changed. For a final state
-- it returns whether the task has steps that have not ended (not with EXISTS,
-- which would hash the steps of all tasks as long as the database has no
-- statistics).
UPDATE tasks SET
    state = @state, reason = @reason,
    pause_next = CASE WHEN @state::text IN ('paused', 'succeeded', 'failed', 'timed_out', 'cancelled') THEN '' ELSE pause_next END,
    lease_hash = CASE WHEN @state::text IN ('starting', 'running') THEN lease_hash END,
    lease_expires_at = CASE WHEN @state::text IN ('starting', 'running') THEN lease_expires_at END,
    admitted_at = CASE WHEN @state::text IN ('starting', 'running') THEN admitted_at END,
    not_before = NULL,
    assignee = CASE WHEN @state::text = 'queued' THEN '' ELSE assignee END, -- its agent's again
    queued_at = CASE WHEN @state::text = 'queued' THEN clock_timestamp() ELSE queued_at END,
    started_at = CASE WHEN @state::text = 'running' THEN coalesce(started_at, clock_timestamp()) ELSE started_at END,
    finished_at = CASE WHEN @state::text IN ('succeeded', 'failed', 'timed_out', 'cancelled') THEN clock_timestamp() END,
    summary = coalesce(sqlc.narg(summary), summary), error_code = coalesce(sqlc.narg(error_code), error_code),
    error_message = coalesce(sqlc.narg(error_message), error_message), progress = coalesce(sqlc.narg(progress), progress),
    iteration = greatest(iteration, sqlc.narg(iteration)::int),
    worker_losses = CASE WHEN sqlc.narg(iteration)::int IS NULL THEN worker_losses ELSE 0 END,
    lease_lapses = CASE WHEN sqlc.narg(iteration)::int IS NULL THEN lease_lapses ELSE 0 END,
    failures = CASE WHEN sqlc.narg(iteration)::int IS NULL THEN failures ELSE 0 END,
    phase_ms = added(phase_ms, sqlc.narg(phases)::bigint[])
WHERE tasks.id = @id AND (tasks.org_id = @org_id) IS TRUE
RETURNING sqlc.embed(tasks), (tasks.finished_at IS NOT NULL AND coalesce((
    SELECT true FROM steps s WHERE s.task_id = tasks.id AND s.state IN ('proposed', 'waiting', 'granted', 'started')
    ORDER BY s.number LIMIT 1), false))::boolean AS has_open_steps;

-- name: RunTask :exec
-- MoveTask to running, for a task that is starting.
UPDATE tasks SET state = 'running', reason = '', not_before = NULL, started_at = coalesce(started_at, clock_timestamp())
WHERE id = @id AND (org_id = @org_id) IS TRUE AND state = 'starting';

-- name: SetTaskResult :exec
UPDATE tasks SET summary = @summary, error_code = @error_code, error_message = @error_message,
    progress = CASE WHEN @done::boolean THEN 1 ELSE progress END
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: SetTaskOverride :exec
UPDATE tasks SET override = @override WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: CountLostLease :one
-- Counts that a lease ended without its worker: as a lost worker, or as a lapse if it lives.
UPDATE tasks SET worker_losses = worker_losses + CASE WHEN @alive::boolean THEN 0 ELSE 1 END,
    lease_lapses = lease_lapses + CASE WHEN @alive::boolean THEN 1 ELSE 0 END
WHERE id = @id AND (org_id = @org_id) IS TRUE
RETURNING worker_losses, lease_lapses;

-- name: AddTaskUsage :exec
UPDATE tasks SET turn_count = greatest(turn_count, @turn::int),
    input_tokens = input_tokens + @input_tokens, output_tokens = output_tokens + @output_tokens,
    cache_read_tokens = cache_read_tokens + @cache_read_tokens,
    cache_write_tokens = cache_write_tokens + @cache_write_tokens,
    cost_micros = cost_micros + @cost_micros, limit_tokens = limit_tokens + @limit_tokens,
    outage_since = CASE WHEN @turn::int > 0 THEN NULL ELSE outage_since END -- a model has answered
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: AddWrittenFiles :one
-- Adds the files that a step has written and returns the sums.
UPDATE tasks SET written_files = written_files + @files, largest_file = greatest(largest_file, @largest)
WHERE id = @id AND (org_id = @org_id) IS TRUE
RETURNING written_files, largest_file;

-- name: SetWrittenFiles :exec
-- Replaces sums that AddWrittenFiles has returned by exact ones; what other steps have added
-- since stays.
UPDATE tasks SET written_files = greatest(written_files - @was_files::bigint, 0) + @files::bigint,
    largest_file = CASE WHEN largest_file = @was_largest::bigint THEN @largest::bigint ELSE largest_file END
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: SetTaskProgress :exec
-- phases are the milliseconds of the iteration's phases; empty if they are not known.
UPDATE tasks SET iteration = greatest(iteration, @iteration::int), progress = @progress, worker_losses = 0, lease_lapses = 0, failures = 0,
    phase_ms = added(phase_ms, @phases::bigint[])
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: CreateTurn :exec
INSERT INTO turns (task_id, turn, org_id, attempt, content, sealed)
VALUES (@task_id, @turn, @org_id, @attempt, @content, @sealed)
ON CONFLICT (task_id, turn) DO NOTHING;

-- name: GetTurn :one
SELECT * FROM turns WHERE org_id = @org_id AND task_id = @task_id AND turn = @turn;

-- name: ListTurns :many
SELECT * FROM turns WHERE org_id = @org_id AND task_id = @task_id ORDER BY turn;

-- name: SetPauseNext :exec
UPDATE tasks SET pause_next = @pause_next WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: LockTasks :many
-- In the order in which they were created: a task depends only on earlier ones,
-- so locking along dependencies uses the same order.
SELECT * FROM tasks WHERE org_id = @org_id AND id = ANY (@ids::text[]) ORDER BY created_at, id FOR UPDATE;

-- name: CountDependent :exec
UPDATE tasks SET dependents = dependents + 1 WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: CreateDependency :exec
INSERT INTO task_dependencies (task_id, depends_on, org_id) VALUES (@task_id, @depends_on, @org_id);

-- name: Dependents :many
-- The tasks that depend on one.
SELECT t.id FROM task_dependencies d JOIN tasks t ON t.id = d.task_id
WHERE d.org_id = @org_id AND d.depends_on = @depends_on AND t.state = 'pending' ORDER BY t.created_at, t.id;

-- name: Dependencies :many
SELECT t.id, t.state, t.title FROM task_dependencies d JOIN tasks t ON t.id = d.depends_on
WHERE d.org_id = @org_id AND d.task_id = @task_id ORDER BY t.created_at, t.id;

-- name: AssignTask :one
UPDATE tasks SET agent_id = @agent_id, agent_version = @agent_version, workspace_scope = @workspace_scope, jail_id = @jail_id,
    task_type = coalesce(nullif(tasks.task_type, ''), (SELECT coalesce(nullif(v.task_type, ''), a.name) FROM agents a
        LEFT JOIN agent_versions v ON v.agent_id = a.id AND v.version = @agent_version::int WHERE a.id = @agent_id::text), ''),
    assignee = @assignee, assigned_by = @assigned_by, assigned_at = clock_timestamp(), created_by_role = @created_by_role
WHERE tasks.id = @id AND (tasks.org_id = @org_id) IS TRUE
RETURNING *;

-- name: UserByName :one
SELECT id, name, effective_role(id)::text AS role FROM users WHERE org_id = @org_id AND name = @name AND disabled_at IS NULL;

-- name: SetPendingReason :exec
UPDATE tasks SET reason = @reason WHERE org_id = @org_id AND id = @id AND state = 'pending';

-- name: SetRetry :exec
-- Sets the overrides for the retry of an escalated task, and resets its
-- counters.
UPDATE tasks SET override = @override, worker_losses = 0, lease_lapses = 0, failures = 0, retries = retries + 1, error_code = '', error_message = ''
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: LockLiveTasks :many
-- A scope's tasks that have not ended, locked in the order in which they were
-- created, like locks along dependencies. ids are those of scope task.
SELECT * FROM tasks
WHERE org_id = @org_id AND finished_at IS NULL
  AND CASE @scope::text WHEN 'task' THEN id = ANY (@ids::text[]) WHEN 'agent' THEN agent_id = @object_id::text
      WHEN 'trigger' THEN trigger_id = @object_id WHEN 'node' THEN node_id = @object_id
      WHEN 'lineage' THEN lineage_id = @object_id ELSE true END
ORDER BY created_at, id FOR UPDATE;

-- name: CancelTasks :exec
UPDATE tasks SET state = 'cancelled', reason = @reason, lease_hash = NULL, lease_expires_at = NULL, admitted_at = NULL,
    pause_next = '', not_before = NULL, error_code = @error_code, error_message = @reason, finished_at = clock_timestamp()
WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: CancelStepsOf :many
UPDATE steps SET state = 'cancelled', decision_reason = @reason, error_code = @error_code, finished_at = clock_timestamp(),
    log_due = state = 'started' AND node_id IS NOT NULL
WHERE org_id = @org_id AND task_id = ANY (@ids::text[]) AND state IN ('proposed', 'waiting', 'granted', 'started')
RETURNING *;

-- name: EndAttempts :exec
UPDATE attempts SET ended_at = now(), outcome = @outcome
WHERE org_id = @org_id AND task_id = ANY (@ids::text[]) AND ended_at IS NULL;

-- name: TaskOfAgent :one
SELECT * FROM tasks
WHERE org_id = @org_id AND agent_id = @agent_id AND finished_at IS NULL AND state <> 'escalated'
  AND (started_at IS NOT NULL OR state = 'starting')
ORDER BY started_at DESC NULLS FIRST, id LIMIT 1;

-- name: TriggerKnown :one
SELECT EXISTS (SELECT 1 FROM tasks WHERE org_id = @org_id AND trigger_id = @trigger_id)::boolean;

-- name: TaskActiveTime :one
-- The time that workers have spent on a task.
SELECT coalesce(sum(coalesce(ended_at, clock_timestamp()) - claimed_at), '0')::interval AS active
FROM attempts WHERE org_id = @org_id AND task_id = @task_id;
