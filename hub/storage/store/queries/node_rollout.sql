-- name: ReplaceNodeRollout :exec
-- Ends the rollout that runs, for another one.
UPDATE node_rollouts SET state = 'replaced', ended_at = clock_timestamp() WHERE org_id = @org_id AND state = 'running';

-- name: CreateNodeRollout :one
INSERT INTO node_rollouts (id, org_id, version, digests, labels, percent, max_failures, created_by)
VALUES (@id, @org_id, @version, @digests, @labels, @percent, @max_failures, @created_by) RETURNING *;

-- name: EndNodeRollout :one
UPDATE node_rollouts SET state = @state, reason = @reason, ended_at = clock_timestamp()
WHERE org_id = @org_id AND state = 'running' AND (@id::text = '' OR id = @id) RETURNING *;

-- name: ListNodeRollouts :many
-- The newest first, before a keyset position.
SELECT * FROM node_rollouts
WHERE org_id = @org_id AND (sqlc.narg(before_time)::timestamptz IS NULL OR (created_at, id) < (sqlc.narg(before_time), @before_id::text))
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: RunningNodeRollouts :many
SELECT * FROM node_rollouts WHERE state = 'running' ORDER BY id;

-- name: NodeRolloutNodes :many
SELECT r.rollout_id, r.node_id, n.name, r.state, r.problem FROM node_rollout_nodes r JOIN nodes n ON n.id = r.node_id
WHERE r.org_id = @org_id AND r.rollout_id = ANY(@rollouts::text[])
ORDER BY n.name, n.id;

-- name: NodesOfRollout :many
-- The nodes that have the labels, in an order that stays as it is when nodes are added,
-- with what the rollout knows of each: '' before it was told.
SELECT n.id, n.version, n.capability, n.upgrade_id, n.upgrade_state, n.upgrade_problem,
       coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected,
       coalesce(r.state, '')::text AS state,
       coalesce(extract(epoch FROM clock_timestamp() - r.told_at), 0)::bigint AS told_seconds
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
LEFT JOIN node_rollout_nodes r ON r.node_id = n.id AND r.rollout_id = @rollout_id
WHERE n.org_id = @org_id AND n.revoked_at IS NULL AND n.labels @> @labels::jsonb
ORDER BY md5(n.id), n.id;

-- name: TellRolloutNode :execrows
INSERT INTO node_rollout_nodes (rollout_id, node_id, org_id)
SELECT o.id, @node_id, o.org_id FROM node_rollouts o WHERE o.id = @rollout_id AND o.state = 'running'
ON CONFLICT DO NOTHING;

-- name: ForgetRolloutNode :exec
-- It could not be told.
DELETE FROM node_rollout_nodes WHERE rollout_id = @rollout_id AND node_id = @node_id AND state = 'told';

-- name: SetRolloutNode :exec
UPDATE node_rollout_nodes SET state = @state, problem = @problem WHERE rollout_id = @rollout_id AND node_id = @node_id AND state = 'told';
