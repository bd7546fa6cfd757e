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

-- name: OpenNodeRollouts :many
-- Those that run, and those of which nodes upgrade still.
SELECT * FROM node_rollouts
WHERE state = 'running' OR id IN (SELECT rollout_id FROM node_rollout_nodes n WHERE n.state = 'upgrading') ORDER BY id;

-- name: NodeRolloutNodes :many
-- The first of each rollout: those that failed, those that upgrade, and the others.
SELECT x.rollout_id, x.node_id, x.name, x.state, x.problem FROM (
    SELECT r.rollout_id, r.node_id, n.name, r.state, r.problem,
           row_number() OVER (PARTITION BY r.rollout_id ORDER BY r.state <> 'failed', r.state <> 'upgrading', n.name, n.id) AS place
    FROM node_rollout_nodes r JOIN nodes n ON n.id = r.node_id
    WHERE r.org_id = @org_id AND r.rollout_id = ANY(@rollouts::text[])) x
WHERE x.place <= @max_nodes::bigint
ORDER BY x.rollout_id, x.place;

-- name: NodeRolloutCounts :many
SELECT rollout_id, state, count(*)::int AS nodes FROM node_rollout_nodes
WHERE org_id = @org_id AND rollout_id = ANY(@rollouts::text[])
GROUP BY rollout_id, state;

-- name: NodesOfRollout :many
-- The nodes that have the labels, in an order that stays as it is when nodes are added,
-- with what the rollout knows of each: '' before it was told. Those that were told belong to
-- it whatever their labels are now.
SELECT n.id, n.name, n.version, n.capability, n.upgrade_id, n.upgrade_state, n.upgrade_problem,
       (n.revoked_at IS NULL AND n.labels @> @labels::jsonb)::boolean AS eligible,
       coalesce(s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval, false)::boolean AS connected,
       coalesce(s.epoch, 0)::bigint AS epoch,
       coalesce(extract(epoch FROM clock_timestamp() - s.touched_at), 0)::bigint AS silent_seconds,
       coalesce(r.state, '')::text AS state,
       coalesce(r.problem, '')::text AS problem,
       coalesce(extract(epoch FROM clock_timestamp() - r.told_at), 0)::bigint AS told_seconds,
       coalesce(CASE WHEN r.standing_epoch = s.epoch THEN extract(epoch FROM clock_timestamp() - r.standing_since) END, -1)::bigint AS standing_seconds
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id
LEFT JOIN node_rollout_nodes r ON r.node_id = n.id AND r.rollout_id = @rollout_id
WHERE n.org_id = @org_id AND (r.node_id IS NOT NULL OR n.revoked_at IS NULL AND n.labels @> @labels::jsonb)
ORDER BY md5(n.id), n.id;

-- name: TellRolloutNode :execrows
INSERT INTO node_rollout_nodes (rollout_id, node_id, org_id)
SELECT o.id, @node_id, o.org_id FROM node_rollouts o WHERE o.id = @rollout_id AND o.state = 'running'
ON CONFLICT DO NOTHING;

-- name: ForgetRolloutNode :exec
-- It could not be told.
DELETE FROM node_rollout_nodes WHERE rollout_id = @rollout_id AND node_id = @node_id AND state = 'upgrading';

-- name: StandRolloutNode :exec
-- It has a session with the new release.
UPDATE node_rollout_nodes SET standing_epoch = @epoch::bigint, standing_since = clock_timestamp()
WHERE rollout_id = @rollout_id AND node_id = @node_id AND state = 'upgrading' AND standing_epoch IS DISTINCT FROM @epoch::bigint;

-- name: SetRolloutNode :exec
UPDATE node_rollout_nodes SET state = @state, problem = @problem WHERE rollout_id = @rollout_id AND node_id = @node_id AND state = @was;
