-- name: CreateJob :exec
INSERT INTO jobs (id, org_id, task_id, step_id, exec_id, node_id, jail_id, command, read_bytes, terminal)
VALUES (@id, @org_id, @task_id, @step_id, @exec_id, @node_id, @jail_id, @command, @read_bytes, @terminal);

-- name: GetJob :one
SELECT * FROM jobs WHERE org_id = @org_id AND task_id = @task_id AND id = @id;

-- name: ListJobs :many
-- A task's jobs, those that run first, the newest first.
SELECT * FROM jobs WHERE org_id = @org_id AND task_id = @task_id
ORDER BY state = 'running' DESC, started_at DESC, id LIMIT @max_rows;

-- name: SetJobProgress :exec
UPDATE jobs SET read_bytes = greatest(read_bytes, @read_bytes), input_bytes = greatest(input_bytes, @input_bytes) WHERE org_id = @org_id AND task_id = @task_id AND id = @id;

-- name: RunningJobs :many
-- All that run, with whether their task has ended, so that they must too.
SELECT sqlc.embed(j), (t.finished_at IS NOT NULL)::boolean AS unwanted FROM jobs j JOIN tasks t ON t.id = j.task_id
WHERE j.state = 'running' AND j.id > @after_id ORDER BY j.id LIMIT @max_rows;

-- name: RunningJobsOf :many
SELECT * FROM jobs WHERE org_id = @org_id AND task_id = ANY (@task_ids::text[]) AND state = 'running' ORDER BY id;

-- name: WantedJobs :many
-- Those of some names of commands on a node that are jobs of tasks which go on.
SELECT j.exec_id FROM jobs j JOIN tasks t ON t.id = j.task_id
WHERE j.org_id = @org_id AND j.exec_id = ANY (@ids::text[]) AND j.state = 'running' AND t.finished_at IS NULL;

-- name: EndJob :one
-- Stores how a job ended, once.
UPDATE jobs SET state = 'ended', outcome = @outcome, ended_at = @ended_at
WHERE org_id = @org_id AND id = @id AND state = 'running'
RETURNING *;
