-- name: BrowserHost :one
-- The host of the page that a task's browser showed last, before a step; 0 for any.
SELECT (outcome->>'host')::text AS host FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND starts_with(tool, 'browser_') AND outcome->>'host' IS NOT NULL
    AND (@before::int = 0 OR number < @before::int)
ORDER BY number DESC LIMIT 1;
