-- name: ActiveTasks :many
-- Tasks that have a slot or will have one soon.
SELECT id, jail_id, created_by, pool, coalesce(worker_id, '')::text AS worker_id, (state = 'queued')::boolean AS unclaimed FROM tasks
WHERE org_id = @org_id AND admitted_at IS NOT NULL;

-- name: QueuedTasks :many
-- The first of each share's tasks, found share by share in the index, so that
-- the cost does not depend on the length of the queue.
WITH RECURSIVE shares AS (
    (SELECT f.share FROM tasks f WHERE f.org_id = @org_id AND f.in_queue
     ORDER BY f.share LIMIT 1)
    UNION ALL
    SELECT (SELECT f.share FROM tasks f
            WHERE f.org_id = @org_id AND f.in_queue AND f.share > s.share
            ORDER BY f.share LIMIT 1)
    FROM shares s WHERE s.share IS NOT NULL
)
SELECT h.*, a.name AS agent_name, a.status AS agent_status, a.status_reason AS agent_status_reason, a.home_node_id, coalesce(t.served_at, to_timestamp(0))::timestamptz AS served_at
FROM shares s CROSS JOIN LATERAL (
    SELECT q.id, q.agent_id, q.agent_version, q.jail_id, q.workspace_scope, q.reason, q.attempt, q.node_id, q.parent_id, q.pool,
           q.created_by, q.share, q.priority, q.place, q.moved_at, q.trigger_id, q.lineage_id, q.override, q.counted_in,
           q.iteration, q.resumed_at, q.limit_tokens, q.granted_iterations, q.granted_tokens, q.granted_tool_calls,
           (q.started_at IS NOT NULL)::boolean AS started
    FROM tasks q
    WHERE q.org_id = @org_id AND q.in_queue AND q.share = s.share
      AND (q.not_before IS NULL OR q.not_before <= clock_timestamp())
    ORDER BY q.priority DESC, q.place, q.moved_at DESC NULLS LAST, q.id LIMIT @per_share
) h
JOIN agents a ON a.id = h.agent_id
LEFT JOIN queue_turns t ON t.org_id = @org_id AND t.share = h.share
ORDER BY h.priority DESC, h.place, h.moved_at DESC NULLS LAST, h.id;

-- name: QueuedTasksBeyond :many
-- As QueuedTasks, without tasks that are known not to start now: of the tasks
-- that are considered, the first of each share's that may start.
WITH RECURSIVE shares AS (
    (SELECT f.share FROM tasks f WHERE f.org_id = @org_id AND f.in_queue
     ORDER BY f.share LIMIT 1)
    UNION ALL
    SELECT (SELECT f.share FROM tasks f
            WHERE f.org_id = @org_id AND f.in_queue AND f.share > s.share
            ORDER BY f.share LIMIT 1)
    FROM shares s WHERE s.share IS NOT NULL
), still AS (
    SELECT id FROM agents WHERE org_id = @org_id AND (id = ANY (@agents::text[]) OR status = ANY (@agent_statuses::text[]))
), disabled AS (
    SELECT id FROM agents WHERE org_id = @org_id AND status = 'disabled'
)
SELECT h.*, a.name AS agent_name, a.status AS agent_status, a.status_reason AS agent_status_reason, a.home_node_id, coalesce(t.served_at, to_timestamp(0))::timestamptz AS served_at
FROM shares s CROSS JOIN LATERAL (
    SELECT l.* FROM (
        SELECT q.id, q.agent_id, q.agent_version, q.jail_id, q.workspace_scope, q.reason, q.attempt, q.node_id, q.parent_id, q.pool,
               q.created_by, q.share, q.priority, q.place, q.moved_at, q.trigger_id, q.lineage_id, q.override, q.counted_in,
           q.iteration, q.resumed_at, q.limit_tokens, q.granted_iterations, q.granted_tokens, q.granted_tool_calls,
           (q.started_at IS NOT NULL)::boolean AS started
        FROM tasks q
        WHERE q.org_id = @org_id AND q.in_queue AND q.share = s.share
          AND (q.not_before IS NULL OR q.not_before <= clock_timestamp())
        ORDER BY q.priority DESC, q.place, q.moved_at DESC NULLS LAST, q.id LIMIT @look
    ) l
    WHERE l.agent_id NOT IN (SELECT id FROM still) AND (l.started OR l.agent_id NOT IN (SELECT id FROM disabled))
      AND l.trigger_id <> ALL (@triggers::text[]) AND l.lineage_id <> ALL (@lineages::text[])
      AND l.pool <> ALL (@pools::text[])
      AND (l.jail_id <> ALL (@jails::text[]) OR l.id = ANY (@holders::text[]))
      AND (l.node_id IS NULL OR l.node_id <> ALL (@nodes::text[]))
      AND (l.agent_id <> ALL (@homeless::text[]) OR l.override ->> 'node_id' IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM restored_tasks r WHERE r.task_id = l.id AND r.cleared_at IS NULL)
      AND l.id <> ALL (@taken::text[]) AND (l.counted_in <> '' OR @more_runs::boolean)
    ORDER BY l.priority DESC, l.place, l.moved_at DESC NULLS LAST, l.id LIMIT @per_share
) h
JOIN agents a ON a.id = h.agent_id
LEFT JOIN queue_turns t ON t.org_id = @org_id AND t.share = h.share
WHERE s.share <> ALL (@shares::text[])
ORDER BY h.priority DESC, h.place, h.moved_at DESC NULLS LAST, h.id;

-- name: QueuePlaces :many
-- As QueuedTasks, for computing a task's position.
WITH RECURSIVE shares AS (
    (SELECT f.share FROM tasks f WHERE f.org_id = @org_id AND f.in_queue
     ORDER BY f.share LIMIT 1)
    UNION ALL
    SELECT (SELECT f.share FROM tasks f
            WHERE f.org_id = @org_id AND f.in_queue AND f.share > s.share
            ORDER BY f.share LIMIT 1)
    FROM shares s WHERE s.share IS NOT NULL
), active AS (
    SELECT b.created_by, count(*) AS tasks FROM tasks b WHERE b.org_id = @org_id AND b.admitted_at IS NOT NULL GROUP BY b.created_by
)
SELECT h.*, coalesce(t.served_at, to_timestamp(0))::timestamptz AS served_at, coalesce(active.tasks, 0)::int AS active,
       coalesce((SELECT sum(active.tasks) FROM active), 0)::int AS all_active
FROM shares s CROSS JOIN LATERAL (
    SELECT q.id, q.agent_id, q.share, q.priority, q.place, q.moved_at
    FROM tasks q
    WHERE q.org_id = @org_id AND q.in_queue AND q.share = s.share
      AND (q.not_before IS NULL OR q.not_before <= clock_timestamp())
    ORDER BY q.priority DESC, q.place, q.moved_at DESC NULLS LAST, q.id LIMIT @per_share
) h
LEFT JOIN active ON active.created_by = h.share
LEFT JOIN queue_turns t ON t.org_id = @org_id AND t.share = h.share
ORDER BY h.priority DESC, h.place, h.moved_at DESC NULLS LAST, h.id;

-- name: ServeShares :exec
-- Records that shares had their turn, in that order.
INSERT INTO queue_turns (org_id, share, served_at)
VALUES (@org_id, unnest(@shares::text[]), clock_timestamp())
ON CONFLICT (org_id, share) DO UPDATE SET served_at = clock_timestamp();

-- name: MoveInQueue :one
UPDATE tasks SET share = @share, priority = @priority, place = @place, moved_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND in_queue
RETURNING *;

-- name: FirstPriority :one
-- The highest priority in the queue.
SELECT coalesce(max(priority), 0)::int AS priority FROM tasks
WHERE org_id = @org_id AND in_queue;

-- name: TaskPace :one
-- How long the last tasks took, those of an agent and all, in seconds.
SELECT coalesce(avg(CASE WHEN own THEN took END), 0)::double precision AS agent_s,
       count(CASE WHEN own THEN 1 END) AS agent_count,
       coalesce(avg(took), 0)::double precision AS all_s, count(*) AS all_count
FROM (SELECT (t.agent_id = @agent_id)::boolean AS own,
             extract(epoch FROM t.finished_at - t.started_at)::double precision AS took FROM tasks t
      WHERE t.org_id = @org_id AND t.finished_at IS NOT NULL AND t.state = 'succeeded' AND t.started_at IS NOT NULL
      ORDER BY t.finished_at DESC LIMIT @sample) AS recent;

-- name: DueTasks :many
-- Tasks whose timer has run out.
SELECT id, org_id FROM tasks WHERE state IN ('waiting', 'paused') AND not_before <= clock_timestamp()
ORDER BY not_before LIMIT @max_rows;

-- name: LockDueTask :one
SELECT * FROM tasks
WHERE (org_id = @org_id) IS TRUE AND id = @id AND state IN ('waiting', 'paused') AND not_before <= clock_timestamp()
FOR UPDATE SKIP LOCKED;

-- name: SetTaskTimer :exec
UPDATE tasks SET not_before = clock_timestamp() + @wait::interval, reason = @reason WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: NameAssignee :exec
-- Assigns a task to a person who must decide on it, unless it is assigned
-- already.
UPDATE tasks SET assignee = created_by, assigned_by = 'hub', assigned_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND assignee = '';

-- name: CountTaskFailure :exec
UPDATE tasks SET failures = failures + 1, retries = retries + 1 WHERE id = @id AND (org_id = @org_id) IS TRUE;
