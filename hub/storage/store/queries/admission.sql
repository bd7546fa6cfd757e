-- name: LockAdmission :exec
-- Locks until the end of the transaction: one admission per organisation at a
-- time.
SELECT pg_advisory_xact_lock(hashtextextended('admission:' || @org_id::text, 0));

-- name: LockSubmissions :exec
-- Locks until the end of the transaction: one submission per organisation at a time
-- counts the runs that are left. It is the last lock that a transaction waits for.
SELECT pg_advisory_xact_lock(hashtextextended('submission:' || @org_id::text, 0));

-- name: OrganisationsWithQueue :many
SELECT DISTINCT org_id FROM tasks WHERE in_queue;

-- name: KeptJails :many
-- Jails that are in use without a slot: of a task that began, has not ended and
-- will continue in its workspace (the one that began last comes last), and
-- those with processes that have yet to be killed.
SELECT t.jail_id, t.id, false AS killed, (t.state = 'waiting')::boolean AS waits, t.started_at::timestamptz AS since FROM tasks t
WHERE t.org_id = @org_id AND t.keeps_jail
UNION ALL
SELECT k.jail_id, k.task_id, true, false, k.ordered_at FROM kill_orders k WHERE k.org_id = @org_id AND k.confirmed_at IS NULL
ORDER BY 3, 5, 2;

-- name: AdmitTask :exec
UPDATE tasks SET admitted_at = clock_timestamp(), node_id = @node_id, reason = @reason, not_before = NULL,
    counted_in = CASE counted_in WHEN '' THEN @period ELSE counted_in END,
    granted_iterations = sqlc.narg(granted_iterations)::bigint, granted_tokens = sqlc.narg(granted_tokens)::bigint,
    granted_tool_calls = sqlc.narg(granted_tool_calls)::bigint
WHERE id = @id AND (org_id = @org_id) IS TRUE AND state = 'queued';

-- name: TakeBackFromNode :exec
-- Tasks that were admitted to a node, and not claimed yet, go back to the
-- queue. A task that has nothing on the node may then start on another. The holder of the
-- node's lock stays.
UPDATE tasks SET admitted_at = NULL, reason = @reason,
    node_id = CASE WHEN attempt = 0 AND origin_id IS NULL THEN NULL ELSE node_id END
WHERE tasks.org_id = @org_id AND tasks.node_id = @node_id::text AND state = 'queued' AND admitted_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM node_locks l WHERE l.task_id = tasks.id AND l.released_at IS NULL AND l.node_id = tasks.node_id);

-- name: TakeBackFromAgent :exec
-- As TakeBackFromNode, for an agent that starts nothing: all waiting tasks get
-- the reason. With fresh_only, only those that have not started do.
UPDATE tasks SET admitted_at = NULL, reason = @reason
WHERE org_id = @org_id AND agent_id = @agent_id AND state = 'queued' AND (started_at IS NULL OR NOT @fresh_only::boolean)
  AND (not_before IS NULL OR not_before <= clock_timestamp() OR admitted_at IS NOT NULL);

-- name: AgentGoesOn :exec
-- Tasks that waited for their agent wait for their turn.
UPDATE tasks SET reason = @reason
WHERE org_id = @org_id AND agent_id = @agent_id AND in_queue AND reason = @was;

-- name: TakeBackFromPool :exec
-- As TakeBackFromNode, if no worker of the pool takes tasks.
UPDATE tasks t SET admitted_at = NULL, reason = @reason
WHERE t.org_id = @org_id AND t.pool = @pool AND t.state = 'queued' AND t.admitted_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM workers w WHERE w.org_id = t.org_id AND w.pool = t.pool AND w.drained_at IS NULL AND w.pressure = ''
      AND w.last_seen_at > clock_timestamp() - @stale_after::interval);

-- name: SetTaskReason :exec
UPDATE tasks SET reason = @reason WHERE id = @id AND (org_id = @org_id) IS TRUE AND state = 'queued';

-- name: UnclaimedTasks :many
-- Admitted, but not claimed for that long: the wake-up may be lost.
SELECT id, org_id, attempt, pool FROM tasks
WHERE state = 'queued' AND admitted_at < clock_timestamp() - @older_than::interval
ORDER BY admitted_at LIMIT @max_rows;

-- name: ClaimTask :one
-- Also returns the provider and the model that the task begins with.
UPDATE tasks SET state = 'starting', reason = @reason, attempt = attempt + 1, worker_id = @worker_id, quota_limits = '{}',
    lease_hash = @lease_hash, lease_expires_at = clock_timestamp() + @ttl::interval,
    -- An organisation without a memory has nothing to choose from: this needs no transaction of its own.
    memories_chosen = memories_chosen OR NOT EXISTS (SELECT 1 FROM memories m WHERE m.org_id = tasks.org_id)
WHERE tasks.id = @id AND (tasks.org_id = @org_id) IS TRUE AND state = 'queued' AND (admitted_at IS NOT NULL) IS TRUE
  AND attempt + 1 = @attempt::int
  AND (coalesce(cardinality(@pools::text[]), 0) = 0 OR tasks.pool = ANY (@pools::text[]))
  AND EXISTS (SELECT 1 FROM workers w WHERE w.id = @worker_id AND w.org_id = @org_id AND w.drained_at IS NULL AND w.pressure = ''
                AND w.pool = tasks.pool)
RETURNING sqlc.embed(tasks),
    coalesce(override ->> 'provider', (SELECT v.provider FROM agent_versions v WHERE v.agent_id = tasks.agent_id AND v.version = tasks.agent_version), '')::text AS provider,
    CASE WHEN override ? 'provider' THEN coalesce(override ->> 'model', '')
         ELSE coalesce((SELECT v.model FROM agent_versions v WHERE v.agent_id = tasks.agent_id AND v.version = tasks.agent_version), '') END::text AS model;

-- name: SetQuotaLimits :exec
-- The limits of a claimed run that were lowered to what quotas grant it.
UPDATE tasks SET quota_limits = @limits::text[] WHERE id = @id AND (org_id = @org_id) IS TRUE AND attempt = @attempt;

-- name: CreateAttempt :exec
INSERT INTO attempts (task_id, attempt, org_id, worker_id) VALUES (@task_id, @attempt, @org_id, @worker_id);

-- name: EndAttempt :exec
UPDATE attempts SET ended_at = now(), outcome = @outcome
WHERE org_id = @org_id AND task_id = @task_id AND attempt = @attempt AND ended_at IS NULL;

-- name: RenewLeases :many
-- One statement for all of a worker's leases. It returns those that it renewed: the live ones,
-- without those whose task another transaction writes now. Rows that refer to a task do not
-- count as such a write.
UPDATE tasks t SET lease_expires_at = clock_timestamp() + @ttl::interval
FROM (SELECT f.id FROM tasks f
      JOIN (SELECT unnest(@ids::text[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@hashes::bytea[]) AS hash) AS l
        ON f.id = l.id AND f.attempt = l.attempt AND f.lease_hash = l.hash
      WHERE (f.org_id = @org_id) IS TRUE AND f.lease_expires_at > clock_timestamp()
      FOR NO KEY UPDATE OF f SKIP LOCKED) AS free
WHERE t.id = free.id AND t.lease_expires_at > clock_timestamp()
RETURNING t.id, t.attempt;

-- name: LiveLeases :many
-- Those of the leases that are live by the database's clock.
SELECT t.id, t.attempt
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@hashes::bytea[]) AS hash) AS l
JOIN tasks t ON t.id = l.id AND t.attempt = l.attempt AND t.lease_hash = l.hash
WHERE t.lease_expires_at > clock_timestamp();

-- name: TaskStates :many
SELECT id, state, attempt FROM tasks WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: ExpiredLeases :many
SELECT id, org_id FROM tasks
WHERE admitted_at IS NOT NULL AND lease_hash IS NOT NULL AND lease_expires_at <= clock_timestamp()
ORDER BY lease_expires_at LIMIT @max_rows;

-- name: LockExpiredLease :one
SELECT * FROM tasks
WHERE (org_id = @org_id) IS TRUE AND id = @id AND lease_hash IS NOT NULL AND lease_expires_at <= clock_timestamp()
FOR UPDATE SKIP LOCKED;
