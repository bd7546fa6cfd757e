-- name: BrowserHost :one
-- The host of the page that a task's browser showed last, before a step; 0 for any.
SELECT (outcome->>'host')::text AS host FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND starts_with(tool, 'browser_') AND outcome->>'host' IS NOT NULL
    AND (@before::int = 0 OR number < @before::int)
ORDER BY number DESC LIMIT 1;

-- name: BrowserKey :one
SELECT key_sealed FROM task_browsers WHERE org_id = @org_id AND task_id = @task_id;

-- name: CreateBrowserKey :exec
INSERT INTO task_browsers (task_id, org_id, key_sealed) VALUES (@task_id, @org_id, @key_sealed) ON CONFLICT (task_id) DO NOTHING;

-- name: PutBrowserSession :exec
-- Once for a step.
INSERT INTO browser_sessions (task_id, number, turn, org_id, sealed, summary)
VALUES (@task_id, @number, @turn, @org_id, @sealed, @summary) ON CONFLICT (task_id, number) DO NOTHING;

-- name: PruneBrowserSessions :execrows
-- Empties all of a task but the newest, and those of checkpoints that somebody has named or kept
-- or that were made before a call. The rows stay: a state that is not kept any more is not taken
-- for none.
UPDATE browser_sessions b SET sealed = '', summary = '{}'
WHERE b.org_id = @org_id AND b.task_id = @task_id AND octet_length(b.sealed) > 0
  AND b.number <= coalesce((SELECT n.number FROM browser_sessions n WHERE n.task_id = @task_id ORDER BY n.number DESC LIMIT 1 OFFSET @most::int), 0)
  AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.task_id = b.task_id AND c.reason NOT IN ('auto', 'phase') AND c.iteration >= b.turn
                  AND NOT EXISTS (SELECT 1 FROM browser_sessions n WHERE n.task_id = b.task_id AND n.number > b.number AND n.turn <= c.iteration))
  AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.org_id = b.org_id AND s.task_id = b.task_id AND s.checkpoint <> '' AND s.number > b.number
                  AND NOT EXISTS (SELECT 1 FROM browser_sessions n WHERE n.task_id = b.task_id AND n.number > b.number AND n.number < s.number));

-- name: BrowserSession :one
-- The newest of a task up to a turn, and before a step unless that is 0.
SELECT task_id, number, sealed, summary FROM browser_sessions
WHERE org_id = @org_id AND task_id = @task_id AND turn <= @up_to_turn AND (@before::int = 0 OR number < @before::int)
ORDER BY number DESC LIMIT 1;

-- name: ExpireBrowserSessions :execrows
-- Empties those of ended tasks, and all but the newest of the others, unless a checkpoint has
-- them: one may be kept for longer.
UPDATE browser_sessions b SET sealed = '', summary = '{}'
WHERE b.created_at < now() - @keep_for::interval AND octet_length(b.sealed) > 0 AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = b.task_id)
  AND (EXISTS (SELECT 1 FROM tasks t WHERE t.id = b.task_id AND t.finished_at < now() - @keep_for::interval)
       OR EXISTS (SELECT 1 FROM browser_sessions n WHERE n.task_id = b.task_id AND n.number > b.number))
  AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.task_id = b.task_id AND c.iteration >= b.turn
                  AND NOT EXISTS (SELECT 1 FROM browser_sessions n WHERE n.task_id = b.task_id AND n.number > b.number AND n.turn <= c.iteration));

-- name: TakeBrowser :one
-- Returns no row while somebody has it.
INSERT INTO browser_takeovers (task_id, org_id, holder, user_id, user_name, until_at)
VALUES (@task_id, @org_id, @holder, @user_id, @user_name, clock_timestamp() + @lasts::interval)
ON CONFLICT (task_id) DO NOTHING
RETURNING *;

-- name: EndLapsedTakeovers :many
-- Of one task, or of all if that is empty.
DELETE FROM browser_takeovers WHERE until_at < clock_timestamp() AND (@task_id::text = '' OR task_id = @task_id)
RETURNING *;

-- name: BrowserTakenOver :one
SELECT * FROM browser_takeovers WHERE org_id = @org_id AND task_id = @task_id AND until_at > clock_timestamp();

-- name: KeepBrowser :execrows
UPDATE browser_takeovers SET until_at = clock_timestamp() + @lasts::interval
WHERE org_id = @org_id AND task_id = @task_id AND holder = @holder AND until_at > clock_timestamp();

-- name: GiveBrowserBack :execrows
DELETE FROM browser_takeovers WHERE org_id = @org_id AND task_id = @task_id AND holder = @holder;

-- name: AddBrowserRecording :execrows
-- Unless the task has as many as it may.
INSERT INTO browser_recordings (task_id, exec_id, org_id, node_id)
SELECT @task_id, @exec_id, @org_id, @node_id
WHERE (SELECT count(*) FROM browser_recordings WHERE org_id = @org_id AND task_id = @task_id) < @most::int
ON CONFLICT DO NOTHING;

-- name: DropBrowserRecording :exec
DELETE FROM browser_recordings WHERE org_id = @org_id AND task_id = @task_id AND exec_id = @exec_id;

-- name: BrowserRecordings :many
SELECT * FROM browser_recordings WHERE org_id = @org_id AND task_id = @task_id ORDER BY began_at, exec_id;

-- name: CollectBrowserRecordings :execrows
DELETE FROM browser_recordings WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);
