-- name: ClaimOutboundCall :execrows
-- Stores that a run of a step is about to be sent. Returns 0 if it was claimed before.
INSERT INTO outbound_calls (org_id, exec_id, destination_id, step_id, state)
VALUES (@org_id, @exec_id, @destination_id, @step_id, @state)
ON CONFLICT DO NOTHING;

-- name: CountOutboundCalls :one
-- The calls to a destination in the last hour. The caller has locked its row.
SELECT count(*)::bigint FROM outbound_calls WHERE destination_id = @destination_id AND (org_id = @org_id) IS TRUE AND created_at > clock_timestamp() - interval '1 hour';

-- name: GetOutboundCall :one
-- What a run of a step sends that sends to one destination, and the destination's name.
SELECT sqlc.embed(c), d.name AS destination, (clock_timestamp() - c.created_at)::interval AS age
FROM outbound_calls c JOIN destinations d ON d.org_id = c.org_id AND d.id = c.destination_id
WHERE c.org_id = @org_id AND c.exec_id = @exec_id
ORDER BY c.created_at LIMIT 1;

-- name: SettleOutboundCall :execrows
UPDATE outbound_calls SET state = @state, status = @status, said = @said
WHERE org_id = @org_id AND exec_id = @exec_id AND destination_id = @destination_id AND state = 'sending';

-- name: PruneOutboundCalls :execrows
DELETE FROM outbound_calls WHERE (org_id, exec_id, destination_id) IN (
    SELECT c.org_id, c.exec_id, c.destination_id FROM outbound_calls c WHERE c.created_at < clock_timestamp() - @keep::interval LIMIT @max_rows);

-- name: UserDevices :many
-- The devices that a user gets notifications on, by the user's name. One row without a
-- destination for a user who has none.
SELECT u.id AS user_id, (effective_role(u.id) = 'admin')::boolean AS admin, coalesce(d.id, '')::text AS destination_id
FROM users u LEFT JOIN destinations d ON d.user_id = u.id AND d.org_id = u.org_id AND d.state = 'enabled' AND d.deleted_at IS NULL
WHERE u.org_id = @org_id AND u.name = @name AND u.disabled_at IS NULL
ORDER BY d.id;
