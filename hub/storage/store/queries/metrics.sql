-- name: OpenTasks :many
-- How many tasks have not ended, by state, and how long the oldest queued one
-- has been in the queue. Read at each scrape.
SELECT state, count(*) AS tasks,
       COALESCE(max(EXTRACT(EPOCH FROM clock_timestamp() - queued_at)) FILTER (WHERE state = 'queued'), 0)::float8 AS oldest_s
FROM tasks WHERE finished_at IS NULL
GROUP BY state;

-- name: OpenInbox :many
SELECT kind, count(*) AS items FROM inbox_items WHERE state = 'open' GROUP BY kind;

-- name: CountNodes :one
-- How many nodes are enrolled, and how many of them have a link to a hub.
SELECT count(*) AS enrolled,
       count(*) FILTER (WHERE s.connected AND s.touched_at > clock_timestamp() - @stale_after::interval) AS connected
FROM nodes n LEFT JOIN node_sessions s ON s.node_id = n.id WHERE n.revoked_at IS NULL;

-- name: CountBudgets :many
-- How many limits that people have set for organisations and users are not near, used
-- to 80 %, or used up, in the period that runs. What is reserved counts as used.
SELECT b.scope, (CASE WHEN coalesce(a.spent_micros + a.reserved_micros, 0) >= b.limit_micros THEN 'reached'
                      WHEN coalesce(a.spent_micros + a.reserved_micros, 0) >= 0.8 * b.limit_micros THEN 'warning'
                      ELSE 'ok' END)::text AS state, count(*) AS budgets
FROM budgets b LEFT JOIN budget_accounts a ON a.org_id = b.org_id AND a.scope = b.scope AND a.object_id = b.object_id
    AND a.period = CASE b.every WHEN 'month' THEN to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM')
                                WHEN 'day' THEN to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD') ELSE '' END
WHERE b.limit_micros IS NOT NULL AND b.scope IN ('organisation', 'user')
GROUP BY 1, 2;

-- name: Alive :one
-- Whether there are workers and nodes, and how many of the nodes have a link to a hub, for
-- the status page.
SELECT EXISTS (SELECT 1 FROM workers w WHERE w.last_seen_at > clock_timestamp() - @workers_after::interval) AS workers,
       (SELECT count(*) FROM nodes n WHERE n.revoked_at IS NULL) AS nodes,
       (SELECT count(*) FROM nodes n JOIN node_sessions s ON s.node_id = n.id
        WHERE n.revoked_at IS NULL AND s.connected AND s.touched_at > clock_timestamp() - @nodes_after::interval) AS connected;
