-- name: CreateCheckpoint :execrows
-- With the name that the agent gave it in that iteration, for which it is kept longer. keep_auto
-- is how long others are kept, unless the organisation has a time of its own.
WITH named AS (
    SELECT outcome->>'name' AS name FROM steps
    WHERE org_id = @org_id AND task_id = @task_id AND turn = @iteration AND tool = @tool AND state = 'succeeded'
    ORDER BY number DESC LIMIT 1
)
INSERT INTO checkpoints (id, task_id, iteration, org_id, attempt, state, name, reason, expires_at)
SELECT @id, @task_id, @iteration, @org_id, @attempt, @state, coalesce(n.name, ''),
       CASE WHEN n.name IS NULL THEN 'auto' ELSE 'agent' END,
       now() + CASE WHEN n.name IS NULL
                    THEN coalesce((SELECT make_interval(secs => o.checkpoint_seconds) FROM organisations o WHERE o.id = @org_id), @keep_auto::interval)
                    ELSE @keep_for::interval END
FROM (SELECT 1) AS one LEFT JOIN named n ON true
ON CONFLICT (task_id, iteration, phase) DO NOTHING;

-- name: CreatePhaseCheckpoint :exec
-- The point behind an iteration at which the next turn is chosen. keep_auto as above.
INSERT INTO checkpoints (id, task_id, iteration, org_id, attempt, state, phase, reason, expires_at)
SELECT @id, @task_id, @iteration, @org_id, @attempt, '{}', 'select_tool', 'phase',
       now() + coalesce((SELECT make_interval(secs => o.checkpoint_seconds) FROM organisations o WHERE o.id = @org_id), @keep_auto::interval)
ON CONFLICT (task_id, iteration, phase) DO NOTHING;

-- name: CheckpointNamed :one
-- The newest of a task with a name that has not expired: the end of an iteration that the
-- agent named, or the point before a call (step is its number, else 0). before_risk names
-- the point before the last risky call that was made, prefix with a number any other.
SELECT n.iteration, n.step FROM (
    SELECT c.iteration, 0 AS step FROM checkpoints c JOIN tasks t ON t.id = c.task_id
    WHERE c.org_id = @org_id AND c.task_id = @task_id AND c.phase = 'iterate' AND c.name = @name AND (c.expires_at > now() OR t.finished_at IS NULL)
    UNION ALL
    SELECT s.turn - 1, s.number FROM steps s
    WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.checkpoint <> ''
      AND (@name = @before_risk::text AND s.checkpoint = 'risk' AND s.started_at IS NOT NULL OR @name = @prefix::text || s.number)
) AS n ORDER BY n.iteration DESC, n.step DESC LIMIT 1;

-- name: NewestCheckpoint :one
SELECT * FROM checkpoints WHERE org_id = @org_id AND task_id = @task_id AND phase = 'iterate' ORDER BY iteration DESC LIMIT 1;

-- name: GetCheckpoint :one
-- The end of an iteration that has not expired; iteration 0 is the newest.
SELECT c.* FROM checkpoints c JOIN tasks t ON t.id = c.task_id
WHERE c.org_id = @org_id AND c.task_id = @task_id AND c.phase = 'iterate' AND (@iteration::int = 0 OR c.iteration = @iteration)
  AND (c.expires_at > now() OR t.finished_at IS NULL)
ORDER BY c.iteration DESC LIMIT 1;

-- name: CheckpointByID :one
-- A task's checkpoint that has not expired.
SELECT c.* FROM checkpoints c JOIN tasks t ON t.id = c.task_id
WHERE c.org_id = @org_id AND c.task_id = @task_id AND c.id = @id AND (c.expires_at > now() OR t.finished_at IS NULL);

-- name: ListCheckpoints :many
-- Newest first, those before a place; 0 for all. before_steps are the numbers of the calls of
-- the next iteration before which a checkpoint was made.
SELECT c.id, c.iteration, c.phase, c.name, c.reason, c.created_at, c.expires_at, (2 * c.iteration + (c.phase <> 'iterate')::int)::int AS place,
       CASE c.phase WHEN 'iterate' THEN
           ARRAY(SELECT s.number FROM steps s WHERE s.org_id = c.org_id AND s.task_id = c.task_id AND s.turn = c.iteration + 1 AND s.checkpoint <> '' ORDER BY s.number)
       ELSE '{}' END::int[] AS before_steps,
       coalesce((SELECT b.summary FROM browser_sessions b WHERE b.org_id = c.org_id AND b.task_id = c.task_id AND b.turn <= c.iteration
                 ORDER BY b.number DESC LIMIT 1), '{}')::jsonb AS browser
FROM checkpoints c
WHERE c.org_id = @org_id AND c.task_id = @task_id AND (@before::int = 0 OR 2 * c.iteration + (c.phase <> 'iterate')::int < @before::int)
ORDER BY c.iteration DESC, c.phase DESC LIMIT @max_rows;

-- name: KeepCheckpoint :one
-- Extends the time for which the end of an iteration is kept; never shortens it.
UPDATE checkpoints SET reason = CASE WHEN reason = 'agent' THEN reason ELSE @reason END, expires_at = greatest(expires_at, now() + @keep_for::interval)
WHERE org_id = @org_id AND task_id = @task_id AND iteration = @iteration AND phase = 'iterate'
RETURNING id, iteration, phase, name, reason, created_at, expires_at;

-- name: KeepPhaseCheckpoint :one
-- KeepCheckpoint for the point behind an iteration; that of the iteration is kept by itself.
UPDATE checkpoints SET reason = 'manual', expires_at = greatest(expires_at, now() + @keep_for::interval)
WHERE org_id = @org_id AND task_id = @task_id AND iteration = @iteration AND phase = 'select_tool'
RETURNING id, iteration, phase, name, reason, created_at, expires_at;

-- name: CopyCheckpoint :execrows
INSERT INTO checkpoints (id, task_id, iteration, org_id, attempt, state)
SELECT @id::text, @task_id::text, o.iteration, o.org_id, o.attempt, o.state FROM checkpoints o
WHERE o.org_id = @org_id AND o.task_id = @origin_id AND o.iteration = @iteration AND o.phase = 'iterate';

-- name: ExpireCheckpoints :execrows
-- Deletes all but the newest one, which is all that a resumed task needs, and those with the
-- state of a point behind them that is kept.
DELETE FROM checkpoints c
WHERE c.expires_at < now() AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = c.task_id)
  AND NOT (c.phase = 'iterate' AND EXISTS (SELECT 1 FROM tasks t WHERE t.id = c.task_id AND t.finished_at IS NULL)
           AND NOT EXISTS (SELECT 1 FROM checkpoints n WHERE n.task_id = c.task_id AND n.iteration > c.iteration))
  AND NOT (c.phase = 'iterate' AND EXISTS (SELECT 1 FROM checkpoints p WHERE p.task_id = c.task_id AND p.iteration = c.iteration
                                           AND p.phase = 'select_tool' AND p.expires_at >= now()));
