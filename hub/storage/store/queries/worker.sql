-- name: RegisterWorker :exec
INSERT INTO workers (id, org_id, name, pool, slots, version) VALUES (@id, @org_id, @name, @pool, @slots, @version)
ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, version = excluded.version, last_seen_at = now()
WHERE workers.org_id = excluded.org_id;

-- name: GetWorker :one
SELECT * FROM workers WHERE org_id = @org_id AND id = @id;

-- name: FindWorkers :many
SELECT id, (id = @ref OR name = @ref)::boolean AS exact FROM workers
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix OR (name = @ref AND last_seen_at > clock_timestamp() - @stale_after::interval))
ORDER BY exact DESC, last_seen_at DESC, id LIMIT 2;

-- name: TouchWorker :one
-- Records that a worker is alive and what it reports; returns its state before.
UPDATE workers w SET last_seen_at = now(), pressure = @pressure
FROM workers before WHERE w.org_id = @org_id AND w.id = @id AND before.id = w.id
RETURNING before.pressure AS was_pressure, w.drained_at, w.pool;

-- name: LiveWorkers :many
-- A page by name of the workers that called recently, after a keyset position,
-- with how many tasks each has.
SELECT sqlc.embed(w), (SELECT count(*) FROM tasks t
    WHERE t.org_id = w.org_id AND t.worker_id = w.id AND t.admitted_at IS NOT NULL AND t.state IN ('starting', 'running')) AS active
FROM workers w
WHERE w.org_id = @org_id AND w.last_seen_at > clock_timestamp() - @stale_after::interval
  AND (sqlc.narg(id)::text IS NULL OR w.id = sqlc.narg(id)) AND (w.name, w.id) > (@after_name::text, @after_id::text)
ORDER BY w.name, w.id LIMIT @max_rows;

-- name: PoolWorkers :many
-- As LiveWorkers, with the columns that admission needs.
SELECT id, pool, slots, pressure, (drained_at IS NOT NULL)::boolean AS drained FROM workers
WHERE org_id = @org_id AND last_seen_at > clock_timestamp() - @stale_after::interval
ORDER BY id;

-- name: DrainWorker :execrows
UPDATE workers SET drained_at = now(), drained_by = @by, drain_reason = @reason
WHERE org_id = @org_id AND id = @id AND drained_at IS NULL;

-- name: UndrainWorker :execrows
UPDATE workers SET drained_at = NULL, drained_by = '', drain_reason = ''
WHERE org_id = @org_id AND id = @id AND drained_at IS NOT NULL;
