-- name: DatabaseFacts :one
-- See doctor_database.
SELECT doctor_database()::jsonb AS facts;

-- name: ReplicasSeen :many
SELECT id, address, extract(epoch FROM clock_timestamp() - touched_at)::bigint AS seconds FROM hub_replicas ORDER BY id;

-- name: FailingTriggers :many
-- Triggers of an organisation whose newest deliveries failed, or that stopped themselves.
SELECT t.id, t.name, t.state, t.reason, f.failed, f.total, f.why
FROM triggers t CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE d.state = 'failed')::bigint AS failed, count(*)::bigint AS total,
           coalesce((array_agg(d.reason ORDER BY d.received_at DESC) FILTER (WHERE d.state = 'failed'))[1], '')::text AS why
    FROM (SELECT x.state, x.reason, x.received_at FROM deliveries x WHERE x.org_id = t.org_id AND x.trigger_id = t.id
          AND x.received_at > clock_timestamp() - interval '1 day' ORDER BY x.received_at DESC LIMIT 20) d
) f
WHERE t.org_id = @org_id AND t.deleted_at IS NULL AND (t.state = 'tripped' OR f.failed > 0)
ORDER BY t.name LIMIT 20;

-- name: ExpiringTokens :many
SELECT name, expires_at::timestamptz AS expires_at FROM api_tokens
WHERE org_id = @org_id AND revoked_at IS NULL AND expires_at > clock_timestamp() AND expires_at < clock_timestamp() + @within::interval
ORDER BY expires_at LIMIT 20;

-- name: NewestClaim :one
-- When a worker last claimed a task, and for how long the oldest admitted one waits.
SELECT coalesce((SELECT max(claimed_at) FROM attempts a WHERE a.org_id = @org_id AND a.claimed_at > clock_timestamp() - interval '7 days'), to_timestamp(0))::timestamptz AS claimed_at,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(t.admitted_at)) FROM tasks t WHERE t.org_id = @org_id AND t.state = 'queued' AND t.admitted_at IS NOT NULL), 0)::bigint AS waits_seconds;

-- name: RestoreStatus :one
SELECT (SELECT count(*) FROM restored_tasks r JOIN tasks t ON t.id = r.task_id
        WHERE r.org_id = @org_id AND r.cleared_at IS NULL AND t.finished_at IS NULL)::bigint AS tasks,
       (SELECT coalesce(string_agg(n.name, ', ' ORDER BY n.name), '') FROM restored_nodes r JOIN nodes n ON n.id = r.node_id
        WHERE r.org_id = @org_id AND r.compared_at IS NULL)::text AS nodes;

-- name: ExpiringCredentials :many
-- Credentials that have expired or will soon, and that nothing renews: keys of providers that
-- are no logins, and credentials of agents, of which a person says how long they are valid.
SELECT e.kind::text AS kind, e.name::text AS name, e.expires_at::timestamptz AS expires_at FROM (
    SELECT 'provider' AS kind, c.provider AS name, c.expires_at FROM credentials c
    WHERE c.org_id = @org_id AND NOT c.login AND c.expires_at < clock_timestamp() + @within::interval
    UNION ALL
    SELECT 'credential', x.name, x.expires_at FROM egress_credentials x
    WHERE x.org_id = @org_id AND x.expires_at < clock_timestamp() + @within::interval) e
ORDER BY e.expires_at, e.kind, e.name LIMIT 20;
