-- name: TakeNodeLock :one
-- Returns no row if the lock is held.
INSERT INTO node_locks (id, org_id, node_id, user_id, user_name, reason, exec_id)
VALUES (@id, @org_id, @node_id, @user_id, @user_name, @reason, sqlc.narg(exec_id))
ON CONFLICT (node_id) WHERE released_at IS NULL DO NOTHING
RETURNING *;

-- name: HeldNodeLock :one
SELECT * FROM node_locks WHERE org_id = @org_id AND node_id = @node_id AND released_at IS NULL;

-- name: HeldNodeLocks :many
SELECT * FROM node_locks WHERE org_id = @org_id AND released_at IS NULL;

-- name: ReleaseNodeLock :execrows
UPDATE node_locks SET released_at = now(), released_by = @released_by
WHERE org_id = @org_id AND id = @id AND released_at IS NULL;

-- name: ReleaseExecLock :execrows
-- Releases the lock that a command took for itself.
UPDATE node_locks SET released_at = now(), released_by = @released_by
WHERE org_id = @org_id AND exec_id = @exec_id::text AND released_at IS NULL;

-- name: ListNodeLocks :many
-- Held ones first, then newest first, after a keyset position.
SELECT sqlc.embed(l), n.name AS node_name FROM node_locks l JOIN nodes n ON n.id = l.node_id
WHERE l.org_id = @org_id AND (@node_id::text = '' OR l.node_id = @node_id) AND (@released::boolean OR l.released_at IS NULL)
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (l.released_at IS NULL, l.taken_at, l.id) < (@before_standing::boolean, sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY (l.released_at IS NULL) DESC, l.taken_at DESC, l.id DESC LIMIT @max_rows;

-- name: DrainNode :execrows
UPDATE nodes SET drained_at = coalesce(drained_at, now()), drained_by = @drained_by, drain_reason = @drain_reason
WHERE org_id = @org_id AND id = @id;

-- name: UndrainNode :execrows
UPDATE nodes SET drained_at = NULL, drained_by = '', drain_reason = ''
WHERE org_id = @org_id AND id = @id AND drained_at IS NOT NULL;

-- name: CountActiveOnNode :one
SELECT count(*) FROM tasks
WHERE org_id = @org_id AND node_id = @node_id::text
  AND admitted_at IS NOT NULL;
