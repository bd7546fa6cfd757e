-- name: CreateJoinToken :exec
INSERT INTO join_tokens (id, org_id, hash, labels, created_by, expires_at)
VALUES (@id, @org_id, @hash, @labels, @created_by, @expires_at);

-- name: LockJoinToken :one
SELECT *, (expires_at <= clock_timestamp())::boolean AS expired FROM join_tokens WHERE hash = @hash FOR UPDATE;

-- name: UseJoinToken :exec
UPDATE join_tokens SET used_at = now(), key_fingerprint = @key_fingerprint::text, node_id = @node_id::text WHERE id = @id;

-- name: CreateNode :one
INSERT INTO nodes (id, org_id, name, key_fingerprint, labels, version)
VALUES (@id, @org_id, @name, @key_fingerprint, @labels, @version)
RETURNING *;

-- name: NodeByFingerprint :one
SELECT * FROM nodes WHERE key_fingerprint = @key_fingerprint;

-- name: NodeByID :one
-- For the edge, which knows a node by its certificate before any organisation.
SELECT * FROM nodes WHERE id = @id;

-- name: FindNodes :many
SELECT id, (id = @ref OR name = @ref)::boolean AS exact FROM nodes
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix OR (name = @ref AND revoked_at IS NULL))
ORDER BY exact DESC, id LIMIT 2;

-- name: GetNode :one
SELECT sqlc.embed(n), coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
WHERE n.org_id = @org_id AND n.id = @id;

-- name: ListNodes :many
SELECT sqlc.embed(n), coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
WHERE n.org_id = @org_id
ORDER BY n.name, n.id;

-- name: RevokeNode :execrows
UPDATE nodes SET revoked_at = coalesce(revoked_at, now()) WHERE org_id = @org_id AND id = @id;

-- name: OpenNodeSession :one
INSERT INTO node_sessions (node_id, org_id, epoch, replica, connected)
VALUES (@node_id, @org_id, 1, @replica, true)
ON CONFLICT (node_id) DO UPDATE SET epoch = node_sessions.epoch + 1, replica = excluded.replica, connected = true,
    touched_at = now()
RETURNING epoch;

-- name: CloseNodeSession :execrows
UPDATE node_sessions SET connected = false WHERE node_id = @node_id AND epoch = @epoch;

-- name: TouchNodeSession :execrows
UPDATE node_sessions SET touched_at = now() WHERE node_id = @node_id AND epoch = @epoch AND connected;

-- name: TouchNode :exec
UPDATE nodes SET last_seen_at = now() WHERE id = @id;

-- name: UpdateNodeHello :exec
UPDATE nodes SET version = @version, capability = @capability, runtimes = @runtimes,
    labels = labels || @labels, last_seen_at = now()
WHERE id = @id;

-- name: UpdateNodeEnrolment :one
UPDATE nodes SET name = @name, labels = @labels, version = @version WHERE id = @id RETURNING *;
