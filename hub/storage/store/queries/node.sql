-- name: CreateJoinToken :exec
INSERT INTO join_tokens (id, org_id, hash, labels, created_by, expires_at)
VALUES (@id, @org_id, @hash, @labels, @created_by, @expires_at);

-- name: LockJoinToken :one
SELECT *, (expires_at <= clock_timestamp())::boolean AS expired FROM join_tokens WHERE hash = @hash FOR UPDATE;

-- name: UseJoinToken :exec
UPDATE join_tokens SET used_at = now(), key_fingerprint = @key_fingerprint::text, node_id = @node_id::text WHERE id = @id;

-- name: CreateNode :one
INSERT INTO nodes (id, org_id, name, key_fingerprint, labels, pinned_labels, version)
VALUES (@id, @org_id, @name, @key_fingerprint, @labels::jsonb || @pinned_labels::jsonb, @pinned_labels, @version)
RETURNING *;

-- name: NodeByFingerprint :one
SELECT * FROM nodes WHERE key_fingerprint = @key_fingerprint;

-- name: NodeByID :one
-- For the edge, which identifies a node by its certificate before its
-- organisation is known.
SELECT * FROM nodes WHERE id = @id;

-- name: NodeByName :one
SELECT * FROM nodes WHERE org_id = @org_id AND name = @name AND revoked_at IS NULL;

-- name: FindNodes :many
SELECT id, (id = @ref OR name = @ref)::boolean AS exact FROM nodes
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix OR (name = @ref AND revoked_at IS NULL))
ORDER BY exact DESC, id LIMIT 2;

-- name: GetNode :one
SELECT sqlc.embed(n), coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
WHERE n.org_id = @org_id AND n.id = @id;

-- name: AllNodes :many
SELECT sqlc.embed(n), coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
WHERE n.org_id = @org_id
ORDER BY n.name, n.id;

-- name: ListNodes :many
-- A page by name, after a keyset position.
SELECT sqlc.embed(n), coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
WHERE n.org_id = @org_id AND (n.name, n.id) > (@after_name::text, @after_id::text)
ORDER BY n.name, n.id LIMIT @max_rows;

-- name: RevokeNode :execrows
UPDATE nodes SET revoked_at = now() WHERE org_id = @org_id AND id = @id AND revoked_at IS NULL;

-- name: OpenNodeSession :one
-- Returns no row for a node that is not known by that key, or was revoked. The epoch is
-- above all that were given before the database was restored.
INSERT INTO node_sessions (node_id, org_id, epoch, replica, connected)
SELECT n.id, n.org_id, 1 + coalesce((SELECT max(r.epoch_floor) FROM restores r), 0), @replica, true FROM nodes n
WHERE n.id = @node_id AND n.org_id = @org_id AND n.key_fingerprint = @key_fingerprint AND n.revoked_at IS NULL
ON CONFLICT (node_id) DO UPDATE SET epoch = greatest(node_sessions.epoch + 1, excluded.epoch), replica = excluded.replica, connected = true,
    touched_at = now()
RETURNING epoch;

-- name: CloseNodeSession :execrows
UPDATE node_sessions SET connected = false WHERE node_id = @node_id AND epoch = @epoch;

-- name: TouchNodeSessions :many
-- Records a heartbeat of the nodes of these sessions, and returns those whose
-- session is over, and what is known of the node.
WITH heard AS (
    SELECT (@node_ids::text[])[i] AS node_id, (@epochs::bigint[])[i] AS epoch
    FROM generate_subscripts(@node_ids::text[], 1) AS i
), standing AS (
    SELECT s.node_id FROM node_sessions s
    JOIN heard h ON h.node_id = s.node_id AND h.epoch = s.epoch
    JOIN nodes n ON n.id = s.node_id
    WHERE s.connected AND n.revoked_at IS NULL
    ORDER BY s.node_id FOR NO KEY UPDATE OF s
), touched AS (
    UPDATE node_sessions SET touched_at = now() WHERE node_id IN (SELECT node_id FROM standing)
), seen AS (
    UPDATE nodes SET last_seen_at = now() WHERE id IN (SELECT node_id FROM standing)
)
SELECT h.node_id::text AS node_id, (n.id IS NOT NULL)::boolean AS known, (n.revoked_at IS NOT NULL)::boolean AS revoked
FROM heard h LEFT JOIN nodes n ON n.id = h.node_id
WHERE h.node_id NOT IN (SELECT node_id FROM standing);

-- name: NodeStanding :one
-- What to send to a node when it connects, and whether anything on it must be
-- updated to decisions that were made while it was offline.
SELECT n.drained_at, n.drain_reason,
       EXISTS (SELECT 1 FROM kill_orders k WHERE k.org_id = n.org_id AND k.node_id = n.id AND k.confirmed_at IS NULL)::boolean AS kills,
       EXISTS (SELECT 1 FROM tasks t WHERE t.org_id = n.org_id AND t.node_id = n.id AND t.finished_at IS NULL)::boolean AS tasks,
       EXISTS (SELECT 1 FROM steps s WHERE s.org_id = n.org_id AND s.node_id = n.id AND s.log_due)::boolean AS logs
FROM nodes n WHERE n.id = @id;

-- name: UpdateNodeHello :exec
UPDATE nodes SET version = @version, capability = @capability, runtimes = @runtimes, skills = @skills,
    labels = labels || @labels || pinned_labels, pressure = @pressure, last_seen_at = now(),
    upgrade_id = @upgrade_id, upgrade_version = @upgrade_version, upgrade_state = @upgrade_state, upgrade_problem = @upgrade_problem
WHERE id = @id;

-- name: NodeSkills :one
SELECT skills FROM nodes WHERE org_id = @org_id AND id = @id;

-- name: SetNodePressure :one
-- For the session that has the node; returns the organisation, and no row if
-- another session has it or nothing changes.
UPDATE nodes n SET pressure = @pressure FROM node_sessions s
WHERE n.id = @id AND s.node_id = n.id AND s.epoch = @epoch AND n.pressure <> @pressure
RETURNING n.org_id;

-- name: UpdateNodeEnrolment :one
UPDATE nodes SET name = @name, labels = @labels::jsonb || @pinned_labels::jsonb, pinned_labels = @pinned_labels, version = @version
WHERE id = @id RETURNING *;
