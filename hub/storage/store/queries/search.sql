-- name: SearchPositions :many
-- How far the events of each organisation are read.
SELECT o.id AS org_id, coalesce(CAST(p.after_xid AS text), '0')::text AS after_xid, coalesce(p.after_id, 0)::bigint AS after_id
FROM organisations o LEFT JOIN search_progress p ON p.org_id = o.id
WHERE sqlc.narg(org_id)::text IS NULL OR o.id = sqlc.narg(org_id)
ORDER BY o.id;

-- name: EventsToIndex :many
-- The next events in commit order (see EventsAfter): the text of messages, the step of
-- calls.
SELECT e.id, CAST(e.xid AS text) AS xid, e.task_id, e.seq, e.type, e.time,
       CASE WHEN e.type = ANY (@messages::text[]) THEN search_message(e.payload) ELSE '' END::text AS message,
       coalesce(e.payload ->> 'step_id', '')::text AS step_id
FROM events e
WHERE e.org_id = @org_id
  AND (e.xid, e.id) > (CAST(@after_xid::text AS xid8), @after_id::bigint)
  AND e.xid < CAST(@horizon::text AS xid8)
ORDER BY e.xid, e.id LIMIT @max_rows;

-- name: TasksToIndex :many
SELECT t.id, t.created_at, left(concat_ws(E'\n', t.title, t.goal, t.summary), 32768)::text AS content
FROM tasks t WHERE t.org_id = @org_id AND t.id = ANY (@ids::text[]);

-- name: StepsToIndex :many
SELECT s.id, s.task_id, s.tool, s.proposed_at, coalesce(s.finished_at, s.proposed_at)::timestamptz AS ended_at,
       search_call(coalesce(s.changed_arguments, s.arguments))::text AS call, left(s.observation, 32768)::text AS output
FROM steps s WHERE s.org_id = @org_id AND s.id = ANY (@ids::text[]);

-- name: PutSearchEntries :exec
-- An entry that exists gets the new words and keeps its place.
INSERT INTO search_entries (org_id, task_id, kind, step_id, seq, at, words)
SELECT @org_id, u.task_id, u.kind, u.step_id, u.seq, u.at, CAST(u.words AS tsvector)
FROM (SELECT unnest(@task_ids::text[]) AS task_id, unnest(@kinds::text[]) AS kind, unnest(@step_ids::text[]) AS step_id,
             unnest(@seqs::bigint[]) AS seq, unnest(@times::timestamptz[]) AS at, unnest(@words::text[]) AS words) AS u
ON CONFLICT (task_id, kind, step_id, seq) DO UPDATE SET words = excluded.words;

-- name: MoveSearch :execrows
-- Returns 0 if another hub moved it.
INSERT INTO search_progress AS p (org_id, after_xid, after_id)
VALUES (@org_id, CAST(@after_xid::text AS xid8), @after_id)
ON CONFLICT (org_id) DO UPDATE SET after_xid = excluded.after_xid, after_id = excluded.after_id
WHERE p.after_xid = CAST(@from_xid::text AS xid8) AND p.after_id = @from_id::bigint;

-- name: RebaseSearch :execrows
-- As RebaseEvents. Events that are read again are stored once.
UPDATE search_progress SET after_xid = '3', after_id = greatest(after_id - @again::bigint, 0) WHERE after_xid > pg_snapshot_xmax(pg_current_snapshot());

-- name: PrepareSearch :one
-- For this transaction: a plan for the words that are looked for, since rare words and
-- frequent ones need different ones, and an end to what takes too long.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('statement_timeout', @milliseconds::text, true);

-- name: SearchEntries :many
-- A page of what has the words, the newest first, after a keyset position.
SELECT e.id, e.kind, e.task_id, e.step_id, e.seq, e.at, t.title, t.goal, t.state, coalesce(a.name, '')::text AS agent_name,
       coalesce(s.number, 0)::int AS number, coalesce(s.tool, '')::text AS tool, coalesce(v.type, '')::text AS type,
       coalesce(v.payload ->> 'by', '')::text AS said_by,
       coalesce(CASE e.kind WHEN 'task' THEN left(concat_ws(E'\n', t.title, t.goal, t.summary), 32768)
                   WHEN 'call' THEN search_call(coalesce(s.changed_arguments, s.arguments))
                   WHEN 'output' THEN left(s.observation, 32768)
                   ELSE search_message(v.payload) END, '')::text AS content
FROM (SELECT x.id, x.kind, x.task_id, x.step_id, x.seq, x.at
      FROM search_entries x JOIN tasks y ON y.id = x.task_id
      WHERE x.org_id = @org_id AND x.words @@ CAST(@query::text AS tsquery)
        AND (sqlc.narg(kinds)::text[] IS NULL OR x.kind = ANY (sqlc.narg(kinds)::text[]))
        AND (sqlc.narg(task_id)::text IS NULL OR x.task_id = sqlc.narg(task_id))
        AND (sqlc.narg(agent_id)::text IS NULL OR y.agent_id = sqlc.narg(agent_id))
        AND (sqlc.narg(states)::text[] IS NULL OR y.state = ANY (sqlc.narg(states)::text[]))
        AND (sqlc.narg(cost_over)::bigint IS NULL OR y.cost_micros > sqlc.narg(cost_over))
        AND (sqlc.narg(since)::timestamptz IS NULL OR x.at >= sqlc.narg(since)::timestamptz)
        AND (sqlc.narg(until)::timestamptz IS NULL OR x.at < sqlc.narg(until)::timestamptz)
        AND (@sees_all::boolean OR task_seen(y.org_id, y.created_by, y.assignee, y.agent_id, @viewer::text))
        AND (sqlc.narg(before_time)::timestamptz IS NULL OR (x.at, x.id) < (sqlc.narg(before_time)::timestamptz, @before_id::bigint))
      ORDER BY x.at DESC, x.id DESC LIMIT @max_rows) AS e
JOIN tasks t ON t.id = e.task_id
LEFT JOIN agents a ON a.id = t.agent_id
LEFT JOIN steps s ON e.step_id <> '' AND s.id = e.step_id
LEFT JOIN events v ON e.seq > 0 AND v.task_id = e.task_id AND v.seq = e.seq
ORDER BY e.at DESC, e.id DESC;
