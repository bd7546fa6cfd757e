-- name: StepsFrom :many
-- The first steps of a task above a number.
SELECT * FROM steps WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE AND number > @after_number
ORDER BY number LIMIT @max_rows;

-- name: RunsOfAgent :many
-- The results of an agent's last runs that were not ended from outside. Chats
-- are not included.
SELECT extract(epoch FROM t.finished_at - t.started_at)::double precision AS seconds, t.cost_micros, t.iteration
FROM tasks t
WHERE t.org_id = @org_id AND t.agent_id = @agent_id AND t.finished_at IS NOT NULL
  AND t.started_at IS NOT NULL AND t.state <> 'cancelled' AND NOT t.override ? 'chat'
ORDER BY t.finished_at DESC LIMIT @sample;

-- name: TaskStatistics :many
-- Aggregates the tasks that were created in a period; NULL filters match all. A task of before
-- task types has its agent's name for one.
SELECT (CASE @by::text WHEN 'agent' THEN coalesce(a.name, '') WHEN 'outcome' THEN t.state
            WHEN 'version' THEN CASE WHEN a.name IS NULL THEN '' ELSE a.name || ' v' || t.agent_version END
            WHEN 'task_type' THEN coalesce(nullif(t.task_type, ''), a.name, '')
            WHEN 'day' THEN to_char(t.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
            WHEN 'week' THEN to_char(t.created_at AT TIME ZONE 'UTC', 'IYYY-"W"IW')
            ELSE to_char(t.created_at AT TIME ZONE 'UTC', 'YYYY-MM') END)::text AS key,
       count(*) AS tasks, count(*) FILTER (WHERE t.state = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE t.state = 'failed') AS failed, count(*) FILTER (WHERE t.state = 'timed_out') AS timed_out,
       count(*) FILTER (WHERE t.state = 'cancelled') AS cancelled, count(*) FILTER (WHERE t.finished_at IS NULL) AS live,
       count(*) FILTER (WHERE t.state = 'succeeded' AND t.retries = 0 AND t.origin_id IS NULL) AS first_time,
       (sum(t.retries) + count(*) FILTER (WHERE t.origin_id IS NOT NULL))::bigint AS retries,
       sum(t.denied_calls)::bigint AS denied,
       coalesce(avg(t.iteration - t.resumed_at) FILTER (WHERE t.finished_at IS NOT NULL AND t.started_at IS NOT NULL), 0)::double precision AS iterations,
       count(*) FILTER (WHERE cardinality(t.phase_ms) = 7) AS timed,
       ARRAY[coalesce(sum(t.phase_ms[1]), 0), coalesce(sum(t.phase_ms[2]), 0), coalesce(sum(t.phase_ms[3]), 0), coalesce(sum(t.phase_ms[4]), 0),
             coalesce(sum(t.phase_ms[5]), 0), coalesce(sum(t.phase_ms[6]), 0), coalesce(sum(t.phase_ms[7]), 0)]::bigint[] AS phases,
       sum(t.input_tokens)::bigint AS input_tokens, sum(t.output_tokens)::bigint AS output_tokens,
       sum(t.cache_read_tokens)::bigint AS cache_read_tokens, sum(t.cache_write_tokens)::bigint AS cache_write_tokens,
       sum(t.cost_micros)::bigint AS cost_micros,
       coalesce(avg(extract(epoch FROM t.finished_at - t.started_at)), 0)::double precision AS mean_seconds,
       coalesce(percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY extract(epoch FROM t.finished_at - t.started_at)),
                '{}')::double precision[] AS seconds
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id
WHERE t.org_id = @org_id AND t.created_at >= @since::timestamptz AND t.created_at < @until::timestamptz
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(user_name)::text IS NULL OR t.created_by = sqlc.narg(user_name))
  AND (sqlc.narg(agent_version)::int IS NULL OR t.agent_version = sqlc.narg(agent_version))
  AND (sqlc.narg(task_type)::text IS NULL OR coalesce(nullif(t.task_type, ''), a.name) = sqlc.narg(task_type))
GROUP BY 1
ORDER BY CASE WHEN @by::text IN ('day', 'week', 'month') THEN 0 ELSE count(*) END DESC, 1 LIMIT @max_rows;

-- name: ToolStatistics :many
-- Aggregates the calls of tools of the tasks that TaskStatistics selects.
SELECT s.tool AS key, count(DISTINCT s.task_id) AS tasks, count(*) AS calls,
       count(*) FILTER (WHERE s.state IN ('failed', 'denied', 'unknown')) AS calls_failed,
       count(*) FILTER (WHERE s.state = 'denied') AS denied, coalesce(sum(s.run - 1) FILTER (WHERE s.run > 1), 0)::bigint AS retries,
       coalesce(avg(extract(epoch FROM s.finished_at - s.started_at)), 0)::double precision AS mean_seconds,
       coalesce(percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY extract(epoch FROM s.finished_at - s.started_at)),
                '{}')::double precision[] AS seconds
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id JOIN steps s ON s.task_id = t.id
WHERE t.org_id = @org_id AND t.created_at >= @since::timestamptz AND t.created_at < @until::timestamptz
  AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(user_name)::text IS NULL OR t.created_by = sqlc.narg(user_name))
  AND (sqlc.narg(agent_version)::int IS NULL OR t.agent_version = sqlc.narg(agent_version))
  AND (sqlc.narg(task_type)::text IS NULL OR coalesce(nullif(t.task_type, ''), a.name) = sqlc.narg(task_type))
GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT @max_rows;
