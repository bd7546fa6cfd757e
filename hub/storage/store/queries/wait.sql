-- name: CreateWait :one
INSERT INTO waits (step_id, org_id, task_id, node_id, jail_id, until, job_id, port, path, child_id)
VALUES (@step_id, @org_id, @task_id, @node_id, @jail_id, clock_timestamp() + @lasts::interval, @job_id, @port, @path, @child_id)
RETURNING *;

-- name: GetWait :one
SELECT * FROM waits WHERE org_id = @org_id AND step_id = @step_id;

-- name: OpenWaits :many
-- Calls that wait, with whether that is over: the time has come, the job has ended, or the
-- subtask has, with all that its work was handed over to.
SELECT sqlc.embed(w), (w.until <= clock_timestamp() OR w.job_id <> '' AND EXISTS (
        SELECT 1 FROM jobs j WHERE j.org_id = w.org_id AND j.id = w.job_id AND j.state = 'ended')
    OR w.child_id <> '' AND NOT EXISTS (
        SELECT 1 FROM tasks c JOIN tasks t ON (t.parent_step_id = c.parent_step_id OR t.id = c.id) AND t.org_id = c.org_id
        WHERE c.org_id = w.org_id AND c.id = w.child_id AND t.finished_at IS NULL))::boolean AS over
FROM waits w JOIN steps s ON s.id = w.step_id
WHERE s.state = 'waiting' AND w.step_id > @after_id ORDER BY w.step_id LIMIT @max_rows;

-- name: WaitsOf :many
-- What a task's calls wait for.
SELECT w.* FROM waits w JOIN steps s ON s.id = w.step_id
WHERE w.org_id = @org_id AND w.task_id = @task_id AND s.state = 'waiting' ORDER BY w.until;

-- name: DeleteWaits :exec
-- Of calls that have ended.
DELETE FROM waits w USING steps s WHERE s.id = w.step_id AND s.finished_at IS NOT NULL;
