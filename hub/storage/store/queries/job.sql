-- name: CreateJob :exec
INSERT INTO jobs (id, org_id, task_id, step_id, exec_id, node_id, jail_id, command, read_bytes, terminal, keep)
VALUES (@id, @org_id, @task_id, @step_id, @exec_id, @node_id, @jail_id, @command, @read_bytes, @terminal, @keep);

-- name: GetJob :one
-- A job of a task, or one that an ended task has left running in the jail.
SELECT j.* FROM jobs j WHERE j.org_id = @org_id AND j.id = @id AND (j.task_id = @task_id
    OR j.keep AND j.state = 'running' AND j.jail_id = @jail_id::text AND EXISTS (SELECT 1 FROM tasks t WHERE t.id = j.task_id AND t.finished_at IS NOT NULL));

-- name: ListJobs :many
-- A task's jobs and those that ended tasks have left running in the jail: those that run
-- first, the newest first.
SELECT j.* FROM jobs j WHERE j.org_id = @org_id AND (j.task_id = @task_id
    OR j.keep AND j.state = 'running' AND j.jail_id = @jail_id::text AND EXISTS (SELECT 1 FROM tasks t WHERE t.id = j.task_id AND t.finished_at IS NOT NULL))
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (j.state = 'running', j.started_at, j.id) < (@before_running::boolean, sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY (j.state = 'running') DESC, j.started_at DESC, j.id DESC LIMIT @max_rows;

-- name: SetJobProgress :exec
UPDATE jobs SET read_bytes = greatest(read_bytes, @read_bytes), input_bytes = greatest(input_bytes, @input_bytes) WHERE org_id = @org_id AND id = @id;

-- name: RunningJobs :many
-- All that run, with whether their task has ended, so that they must too.
SELECT sqlc.embed(j), (t.finished_at IS NOT NULL AND NOT (j.keep AND t.state <> 'cancelled'))::boolean AS unwanted FROM jobs j JOIN tasks t ON t.id = j.task_id
WHERE j.state = 'running' AND j.id > @after_id ORDER BY j.id LIMIT @max_rows;

-- name: RunningJobsOf :many
SELECT * FROM jobs WHERE org_id = @org_id AND task_id = ANY (@task_ids::text[]) AND state = 'running' ORDER BY id;

-- name: WantedJobs :many
-- Those of some names of commands on a node that are jobs which go on.
SELECT j.exec_id FROM jobs j JOIN tasks t ON t.id = j.task_id
WHERE j.org_id = @org_id AND j.exec_id = ANY (@ids::text[]) AND j.state = 'running' AND (t.finished_at IS NULL OR j.keep AND t.state <> 'cancelled');

-- name: TasksWithKeptJobs :many
-- A scope's tasks that have ended and whose jobs go on; with scope task also those below it.
WITH RECURSIVE family AS (
    SELECT t.id FROM tasks t WHERE t.org_id = @org_id AND t.id = @object_id::text AND @scope::text = 'task'
    UNION ALL
    SELECT t.id FROM family f JOIN tasks t ON t.parent_id = f.id WHERE t.org_id = @org_id
)
SELECT t.* FROM tasks t
WHERE t.org_id = @org_id AND t.finished_at IS NOT NULL
  AND t.id IN (SELECT j.task_id FROM jobs j WHERE j.org_id = @org_id AND j.keep AND j.state = 'running')
  AND CASE @scope WHEN 'task' THEN t.id IN (SELECT id FROM family) WHEN 'agent' THEN t.agent_id = @object_id
      WHEN 'trigger' THEN t.trigger_id = @object_id WHEN 'node' THEN t.node_id = @object_id
      WHEN 'lineage' THEN t.lineage_id = @object_id ELSE true END
ORDER BY t.created_at, t.id;

-- name: EndJob :one
-- Stores how a job ended, once.
UPDATE jobs SET state = 'ended', outcome = @outcome, ended_at = @ended_at, stored_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state = 'running'
RETURNING *;
