-- name: TouchReplica :exec
INSERT INTO hub_replicas (id, address, version) VALUES (@id, @address, @version)
ON CONFLICT (id) DO UPDATE SET touched_at = clock_timestamp();

-- name: DeleteReplica :exec
DELETE FROM hub_replicas WHERE id = @id;

-- name: DeleteStaleReplicas :execrows
DELETE FROM hub_replicas WHERE touched_at < clock_timestamp() - @stale_after::interval;

-- name: LocateNode :one
-- Which live replica has a node's link. The caller has checked the node's
-- organisation.
SELECT r.id, r.address, s.epoch FROM node_sessions s JOIN hub_replicas r ON r.id = s.replica
WHERE s.node_id = @node_id AND s.connected AND r.touched_at > clock_timestamp() - @stale_after::interval;

-- name: SchemaVersion :one
SELECT schema_version();
