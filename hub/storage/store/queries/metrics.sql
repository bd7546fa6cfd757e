-- name: OpenTasks :many
-- How many tasks have not ended, by state, and how long the oldest queued one
-- has been in the queue. Read at each scrape.
SELECT state, count(*) AS tasks,
       COALESCE(max(EXTRACT(EPOCH FROM clock_timestamp() - queued_at)) FILTER (WHERE state = 'queued'), 0)::float8 AS oldest_s
FROM tasks WHERE finished_at IS NULL
GROUP BY state;

-- name: OpenInbox :many
SELECT kind, count(*) AS items FROM inbox_items WHERE state = 'open' GROUP BY kind;
