-- name: RecordFailure :exec
INSERT INTO task_failures (task_id, org_id, class, signature, failed_at) VALUES (@task_id, @org_id, @class, @signature, @failed_at)
ON CONFLICT (task_id) DO UPDATE SET class = excluded.class, signature = excluded.signature;

-- name: SimilarFailures :many
-- Failures with the same signature that somebody sees, the newest first, with the first later
-- task that succeeded: a retry, or one of the same agent and task type.
SELECT f.task_id, f.failed_at, t.title, coalesce(a.name, '')::text AS agent_name, t.agent_version, t.agent_id,
       coalesce(s.id, '')::text AS solved_by, coalesce(s.title, '')::text AS solved_title, coalesce(s.agent_version, 0)::int AS solved_version,
       coalesce(s.retried, false)::boolean AS solved_by_retry, coalesce(s.override ->> 'model', '')::text AS solved_model
FROM task_failures f JOIN tasks t ON t.id = f.task_id LEFT JOIN agents a ON a.id = t.agent_id
LEFT JOIN LATERAL (
    SELECT x.id, x.title, x.agent_version, x.override, x.origin_id IS NOT DISTINCT FROM t.id AS retried FROM tasks x
    WHERE x.org_id = t.org_id AND x.agent_id = t.agent_id AND x.state = 'succeeded' AND x.created_at > t.created_at
      AND (x.origin_id = t.id OR x.task_type = t.task_type)
      AND (@sees_all::boolean OR task_seen(x.org_id, x.created_by, x.assignee, x.agent_id, @viewer::text))
    ORDER BY (x.origin_id IS NOT DISTINCT FROM t.id) DESC, x.created_at LIMIT 1) AS s ON true
WHERE f.org_id = @org_id AND f.signature = @signature AND f.task_id <> @task_id
  AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
ORDER BY f.failed_at DESC LIMIT @max_rows;

-- name: StrategyHistory :many
-- How tasks of a type went, by agent, model and mode.
SELECT t.agent_id, a.name AS agent_name, coalesce(t.override ->> 'provider', v.provider)::text AS provider, coalesce(t.override ->> 'model', v.model)::text AS model,
       coalesce(t.override ->> 'mode', '')::text AS mode, count(*) AS tasks, count(*) FILTER (WHERE t.state = 'succeeded') AS succeeded,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY t.cost_micros), 0)::double precision AS cost_p50,
       coalesce(percentile_cont(0.9) WITHIN GROUP (ORDER BY t.cost_micros), 0)::double precision AS cost_p90,
       coalesce(avg(t.iteration - t.resumed_at), 0)::double precision AS iterations
FROM tasks t JOIN agents a ON a.id = t.agent_id JOIN agent_versions v ON v.agent_id = t.agent_id AND v.version = t.agent_version
WHERE t.org_id = @org_id AND t.finished_at IS NOT NULL AND t.started_at IS NOT NULL AND t.state <> 'cancelled' AND NOT t.override ? 'chat'
  AND t.finished_at >= @since::timestamptz
  AND (sqlc.narg(task_type)::text IS NULL OR coalesce(nullif(t.task_type, ''), a.name) = sqlc.narg(task_type))
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (@sees_all::boolean OR agent_seen(t.agent_id, @viewer::text))
  AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC LIMIT 50;

-- name: Interventions :many
-- How often people stepped in, by agent or week: decisions of the inbox, and messages.
SELECT (CASE @by::text WHEN 'agent' THEN coalesce(a.name, '') ELSE to_char(t.created_at AT TIME ZONE 'UTC', 'IYYY-"W"IW') END)::text AS key,
       sum((SELECT count(*) FROM inbox_items i WHERE i.task_id = t.id AND i.answered_by <> '')
         + (SELECT count(*) FROM task_messages m WHERE m.task_id = t.id))::bigint AS interventions
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id
WHERE t.org_id = @org_id AND t.created_at >= @since::timestamptz AND t.created_at < @until::timestamptz
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(user_name)::text IS NULL OR t.created_by = sqlc.narg(user_name))
GROUP BY 1 ORDER BY 1 LIMIT 1000;

-- name: DeniedCalls :many
-- Calls that were denied, by agent, tool and reason, the most frequent first.
SELECT coalesce(a.name, '')::text AS agent_name, s.tool, left(s.decision_reason, 300)::text AS reason, count(*) AS calls,
       (array_agg(s.id ORDER BY s.proposed_at DESC))[1]::text AS step_id, (array_agg(s.task_id ORDER BY s.proposed_at DESC))[1]::text AS task_id,
       (array_agg(left(coalesce(s.changed_arguments, s.arguments)::text, 2000) ORDER BY s.proposed_at DESC))[1]::text AS arguments,
       count(DISTINCT s.task_id) AS tasks
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id JOIN steps s ON s.task_id = t.id
WHERE t.org_id = @org_id AND t.created_at >= @since::timestamptz AND t.created_at < @until::timestamptz AND s.state = 'denied'
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(user_name)::text IS NULL OR t.created_by = sqlc.narg(user_name))
GROUP BY 1, 2, 3 ORDER BY count(*) DESC, 1, 2 LIMIT @max_rows;
