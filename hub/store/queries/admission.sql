-- name: LockAdmission :exec
-- Held to the end of the transaction: one admission per organisation at a time.
SELECT pg_advisory_xact_lock(hashtextextended('admission:' || @org_id::text, 0));

-- name: OrganisationsWithQueue :many
SELECT DISTINCT org_id FROM tasks WHERE state = 'queued' AND admitted_at IS NULL;

-- name: BusyJails :many
-- Jails in use by a task that holds or is about to hold a slot, with that task.
SELECT jail_id, id FROM tasks
WHERE org_id = @org_id AND (state IN ('starting', 'running') OR (state = 'queued' AND admitted_at IS NOT NULL));

-- name: QueuedTasks :many
SELECT t.id, t.agent_id, t.jail_id, t.workspace_scope, t.reason, t.attempt, t.node_id, t.pool, a.name AS agent_name,
       a.status AS agent_status, a.home_node_id, v.markdown, v.digest
FROM tasks t JOIN agents a ON a.id = t.agent_id
JOIN agent_versions v ON v.agent_id = t.agent_id AND v.version = t.agent_version
WHERE t.org_id = @org_id AND t.state = 'queued' AND t.admitted_at IS NULL
ORDER BY t.priority DESC, t.queued_at, t.id LIMIT @max_rows;

-- name: AdmitTask :exec
UPDATE tasks SET admitted_at = clock_timestamp(), node_id = @node_id, reason = @reason
WHERE org_id = @org_id AND id = @id AND state = 'queued';

-- name: SetTaskReason :exec
UPDATE tasks SET reason = @reason WHERE org_id = @org_id AND id = @id AND state = 'queued';

-- name: UnclaimedTasks :many
-- Admitted, but not claimed for that long: the wake-up may be lost.
SELECT id, org_id, attempt, pool FROM tasks
WHERE state = 'queued' AND admitted_at < clock_timestamp() - @older_than::interval
ORDER BY admitted_at LIMIT @max_rows;

-- name: ClaimTask :one
UPDATE tasks SET state = 'starting', reason = @reason, attempt = attempt + 1, worker_id = @worker_id,
    lease_hash = @lease_hash, lease_expires_at = clock_timestamp() + @ttl::interval
WHERE tasks.org_id = @org_id AND tasks.id = @id AND state = 'queued' AND admitted_at IS NOT NULL
  AND attempt + 1 = @attempt::int
  AND EXISTS (SELECT 1 FROM workers w WHERE w.id = @worker_id AND w.org_id = @org_id)
RETURNING *;

-- name: CreateAttempt :exec
INSERT INTO attempts (task_id, attempt, org_id, worker_id) VALUES (@task_id, @attempt, @org_id, @worker_id);

-- name: EndAttempt :exec
UPDATE attempts SET ended_at = now(), outcome = @outcome
WHERE org_id = @org_id AND task_id = @task_id AND attempt = @attempt AND ended_at IS NULL;

-- name: RenewLeases :many
-- One statement for all of a worker's leases; answers those it still holds.
UPDATE tasks t SET lease_expires_at = clock_timestamp() + @ttl::interval
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@hashes::bytea[]) AS hash) AS l
WHERE t.org_id = @org_id AND t.id = l.id AND t.attempt = l.attempt AND t.lease_hash = l.hash
  AND t.lease_expires_at > clock_timestamp()
RETURNING t.id, t.attempt;

-- name: TaskStates :many
SELECT id, state, attempt FROM tasks WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: ExpiredLeases :many
SELECT id, org_id FROM tasks
WHERE lease_hash IS NOT NULL AND lease_expires_at <= clock_timestamp()
ORDER BY lease_expires_at LIMIT @max_rows;

-- name: LockExpiredLease :one
SELECT * FROM tasks
WHERE org_id = @org_id AND id = @id AND lease_hash IS NOT NULL AND lease_expires_at <= clock_timestamp()
FOR UPDATE SKIP LOCKED;

-- name: RegisterWorker :exec
INSERT INTO workers (id, org_id, name, pool, slots, version) VALUES (@id, @org_id, @name, @pool, @slots, @version)
ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, version = excluded.version, last_seen_at = now()
WHERE workers.org_id = excluded.org_id;

-- name: GetWorker :one
SELECT * FROM workers WHERE org_id = @org_id AND id = @id;

-- name: TouchWorker :execrows
UPDATE workers SET last_seen_at = now() WHERE org_id = @org_id AND id = @id;
