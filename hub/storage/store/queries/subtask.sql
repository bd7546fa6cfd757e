-- name: TaskChain :many
-- A task and its ancestors: the task that handed its work off to it, and
-- otherwise its parent. link says how a row is related to the next one.
WITH RECURSIVE chain AS (
    SELECT t.id, t.parent_id, t.handed_from, t.agent_id, t.agent_version, 0 AS depth FROM tasks t WHERE t.org_id = @org_id AND t.id = @id
    UNION ALL
    SELECT t.id, t.parent_id, t.handed_from, t.agent_id, t.agent_version, c.depth + 1
    FROM chain c JOIN tasks t ON t.id = coalesce(c.handed_from, c.parent_id) WHERE t.org_id = @org_id AND c.depth < @most::int
)
SELECT c.id, c.agent_id, c.agent_version, a.name AS agent_name,
       (CASE WHEN c.handed_from IS NOT NULL THEN 'handoff' WHEN c.parent_id IS NOT NULL THEN 'subtask' ELSE '' END)::text AS link
FROM chain c JOIN agents a ON a.id = c.agent_id ORDER BY c.depth;

-- name: CountBelow :many
-- For each task of a list, how many tasks there are or were below it.
WITH RECURSIVE below AS (
    SELECT u.id AS top, t.id FROM unnest(@ids::text[]) AS u (id) JOIN tasks t ON t.parent_id = u.id WHERE t.org_id = @org_id
    UNION ALL
    SELECT b.top, t.id FROM below b JOIN tasks t ON t.parent_id = b.id WHERE t.org_id = @org_id
)
SELECT top::text AS id, count(*)::int AS tasks FROM below GROUP BY top;

-- name: LiveBelow :many
-- The tasks below one that have not ended.
WITH RECURSIVE below AS (
    SELECT t.id FROM tasks t WHERE t.org_id = @org_id AND t.parent_id = @id::text
    UNION ALL
    SELECT t.id FROM below b JOIN tasks t ON t.parent_id = b.id WHERE t.org_id = @org_id
)
SELECT t.id FROM below b JOIN tasks t ON t.id = b.id WHERE t.finished_at IS NULL;

-- name: SumBelow :one
-- The results of all tasks below one.
WITH RECURSIVE below AS (
    SELECT t.id FROM tasks t WHERE t.org_id = @org_id AND t.parent_id = @id::text
    UNION ALL
    SELECT t.id FROM below b JOIN tasks t ON t.parent_id = b.id WHERE t.org_id = @org_id
)
SELECT count(*)::int AS tasks, count(*) FILTER (WHERE t.finished_at IS NULL)::int AS live,
       count(*) FILTER (WHERE t.state = 'succeeded')::int AS succeeded,
       coalesce(avg(t.progress), 0)::float8 AS progress,
       coalesce(sum(t.cost_micros), 0)::bigint AS cost_micros,
       coalesce(sum(t.input_tokens), 0)::bigint AS input_tokens, coalesce(sum(t.output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(t.cache_read_tokens), 0)::bigint AS cache_read_tokens,
       coalesce(sum(t.cache_write_tokens), 0)::bigint AS cache_write_tokens
FROM below b JOIN tasks t ON t.id = b.id;

-- name: LockLineage :exec
-- Locks until the end of the transaction: one new task in a lineage at a time,
-- so that no limit is exceeded.
SELECT pg_advisory_xact_lock(hashtextextended('lineage:' || @lineage_id::text, 0));

-- name: CountSubtask :exec
UPDATE tasks SET subtasks = subtasks + 1 WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: NewestOfStep :one
-- The task that a step waits for: the one that it created, or the last one that
-- its work was handed off to.
SELECT sqlc.embed(t), a.name AS agent_name FROM tasks t JOIN agents a ON a.id = t.agent_id
WHERE t.org_id = @org_id AND t.parent_step_id = @step_id::text ORDER BY t.finished_at IS NULL DESC, t.created_at DESC, t.id DESC LIMIT 1;

-- name: AwaitedTasks :many
-- The tasks that calls of a task wait for.
SELECT t.id, t.state, t.reason, a.name AS agent_name
FROM steps s JOIN tasks t ON t.parent_step_id = s.id JOIN agents a ON a.id = t.agent_id
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.state = 'waiting' AND s.tool IN ('create_subtask', 'delegate')
  AND t.finished_at IS NULL
ORDER BY t.created_at, t.id;

-- name: AnsweredSteps :many
-- The calls of a task that wait for a task which has ended.
SELECT s.* FROM steps s
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.state = 'waiting' AND s.tool IN ('create_subtask', 'delegate')
  AND EXISTS (SELECT 1 FROM tasks t WHERE t.parent_step_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.parent_step_id = s.id AND t.finished_at IS NULL)
ORDER BY s.number;

-- name: EndedInBackground :many
-- The calls of a task whose subtask ran in the background and has ended, of which its events
-- do not say so yet.
SELECT s.* FROM steps s
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.state = 'succeeded' AND s.tool IN ('create_subtask', 'delegate')
  AND EXISTS (SELECT 1 FROM tasks t WHERE t.parent_step_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.parent_step_id = s.id AND t.finished_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM events e WHERE e.org_id = @org_id AND e.task_id = @task_id AND e.type = @type AND e.payload ->> 'step_id' = s.id)
ORDER BY s.number;

-- name: AnsweredParents :many
-- Tasks with calls that wait for a task which has ended.
SELECT DISTINCT s.org_id, s.task_id FROM steps s
WHERE s.state = 'waiting' AND s.tool IN ('create_subtask', 'delegate')
  AND EXISTS (SELECT 1 FROM tasks t WHERE t.parent_step_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.parent_step_id = s.id AND t.finished_at IS NULL)
LIMIT @max_rows;

-- name: Orphans :many
-- Tasks that have not ended, though their parent has.
SELECT c.id, c.org_id, p.id AS parent_id, p.state AS parent_state FROM tasks c JOIN tasks p ON p.id = c.parent_id
WHERE c.parent_id IS NOT NULL AND c.finished_at IS NULL AND p.finished_at IS NOT NULL
LIMIT @max_rows;

-- name: SetWaitingReason :exec
UPDATE tasks SET reason = @reason WHERE org_id = @org_id AND id = @id AND state = 'waiting';

-- name: RoundsOf :one
-- In how many turns a task created subtasks for an agent, and how many its programs did.
SELECT (count(DISTINCT s.turn) + count(*) FILTER (WHERE s.id IS NULL))::int AS rounds FROM tasks t LEFT JOIN steps s ON s.id = t.parent_step_id
WHERE t.org_id = @org_id AND t.parent_id = @task_id::text AND t.agent_id = @agent_id AND t.handed_from IS NULL AND s.turn IS DISTINCT FROM @turn::int;

-- name: AgentEdges :many
-- Which agents gave work to which: subtasks by their parents, and handoffs by
-- their sources.
SELECT giver.name AS from_name, taker.name AS to_name, CAST(c.handed_from IS NOT NULL AS boolean) AS handed,
       count(*) AS tasks, count(*) FILTER (WHERE c.finished_at IS NULL) AS live,
       count(*) FILTER (WHERE c.finished_at IS NULL AND c.handed_from IS NULL AND g.state = 'waiting') AS waiting,
       CAST(sum(c.input_tokens + c.output_tokens + c.cache_read_tokens + c.cache_write_tokens) AS bigint) AS tokens,
       CAST(sum(c.cost_micros) AS bigint) AS cost_micros, CAST(max(c.created_at) AS timestamptz) AS last_at,
       CAST(sum(coalesce(r.tokens, 0)) AS bigint) AS recent_tokens
FROM tasks c
LEFT JOIN (SELECT m.task_id, sum(m.input_tokens + m.output_tokens + m.cache_read_tokens + m.cache_write_tokens) AS tokens
           FROM model_calls m WHERE m.org_id = @org_id AND m.started_at >= @since AND m.basis <> 'reserved' GROUP BY 1) r ON r.task_id = c.id
JOIN tasks g ON g.id = coalesce(c.handed_from, c.parent_id)
JOIN agents giver ON giver.id = g.agent_id
JOIN agents taker ON taker.id = c.agent_id
WHERE c.org_id = @org_id AND g.org_id = @org_id AND (c.handed_from IS NOT NULL OR c.parent_id IS NOT NULL)
  AND (@sees_all::boolean OR agent_seen(g.agent_id, @viewer::text) AND agent_seen(c.agent_id, @viewer::text))
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- name: TriggerEdges :many
-- Triggers with their agents, and what the tasks that they started used.
SELECT t.id AS trigger_id, t.name AS trigger_name, t.kind, t.state, a.name AS agent_name, count(c.id) AS tasks,
       count(c.id) FILTER (WHERE c.finished_at IS NULL) AS live,
       CAST(coalesce(sum(c.input_tokens + c.output_tokens + c.cache_read_tokens + c.cache_write_tokens), 0) AS bigint) AS tokens,
       CAST(coalesce(sum(r.tokens), 0) AS bigint) AS recent_tokens, CAST(coalesce(sum(c.cost_micros), 0) AS bigint) AS cost_micros,
       coalesce(max(c.created_at), 'epoch')::timestamptz AS last_at
FROM triggers t JOIN agents a ON a.id = t.agent_id
LEFT JOIN tasks c ON c.org_id = t.org_id AND c.trigger_id = t.id
LEFT JOIN (SELECT m.task_id, sum(m.input_tokens + m.output_tokens + m.cache_read_tokens + m.cache_write_tokens) AS tokens
           FROM model_calls m WHERE m.org_id = @org_id AND m.started_at >= @since AND m.basis <> 'reserved' GROUP BY 1) r ON r.task_id = c.id
WHERE t.org_id = @org_id AND (@sees_all::boolean OR agent_seen(t.agent_id, @viewer::text))
GROUP BY t.id, t.name, t.kind, t.state, a.name ORDER BY t.name, t.id LIMIT @max_rows;
