-- name: RecordStepChanges :exec
INSERT INTO step_changes (step_id, org_id, task_id, node_id, jail_id, change_id, state_before, state_after, files, changes, shared_with, unkept, job_id)
VALUES (@step_id, @org_id, @task_id, @node_id, @jail_id, @change_id, @state_before, @state_after, @files, @changes, @shared_with, @unkept, @job_id)
ON CONFLICT (step_id, job_id) DO NOTHING;

-- name: ListStepChanges :many
-- In order, after a step's number; what a job changed comes after its step.
SELECT sqlc.embed(step_changes), steps.number, steps.tool, steps.finished_at, jobs.ended_at AS job_ended_at
FROM step_changes JOIN steps ON steps.id = step_changes.step_id LEFT JOIN jobs ON jobs.id = step_changes.job_id
WHERE step_changes.org_id = @org_id AND step_changes.task_id = @task_id AND steps.number > @after_number
ORDER BY steps.number, step_changes.job_id LIMIT @max_rows;

-- name: CreateUndo :one
INSERT INTO undos (id, org_id, task_id, node_id, jail_id, step_ids, change_ids, on_conflict, expect_state, asked_by, address, user_agent, paths)
VALUES (@id, @org_id, @task_id, @node_id, @jail_id, @step_ids, @change_ids, @on_conflict, @expect_state, @asked_by, @address, @user_agent, @paths)
RETURNING *;

-- name: PendingUndos :many
-- Those that wait for their task to begin are not among them.
SELECT * FROM undos WHERE org_id = @org_id AND task_id = @task_id AND state = 'pending' AND to_state IS NULL ORDER BY created_at, id;

-- name: CreateRestore :exec
INSERT INTO undos (id, org_id, task_id, node_id, jail_id, step_ids, change_ids, on_conflict, to_state, to_record, asked_by, address, user_agent)
VALUES (@id, @org_id, @task_id, @node_id, @jail_id, '{}', '{}', @on_conflict, @to_state, @to_record, @asked_by, @address, @user_agent);

-- name: PendingRestore :one
SELECT * FROM undos WHERE org_id = @org_id AND task_id = @task_id AND state = 'pending' AND to_state IS NOT NULL;

-- name: WorkspaceAt :one
-- The state in which the last of a task's steps up to a turn left the
-- workspace.
SELECT node_id::text AS node_id, jail_id, workspace_record AS record, workspace_state::bigint AS state FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND turn <= @turn AND workspace_state IS NOT NULL AND node_id IS NOT NULL
ORDER BY number DESC LIMIT 1;

-- name: WorkspaceBefore :one
-- The state in which the first of a task's steps after a turn that changed
-- something found the workspace.
SELECT c.node_id, c.jail_id, s.workspace_record AS record, c.state_before AS state
FROM steps s JOIN step_changes c ON c.step_id = s.id AND c.job_id = ''
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.turn > @turn AND s.workspace_state IS NOT NULL
ORDER BY s.number LIMIT 1;

-- name: ChangesOfLineage :many
-- Those of some ids of changes that belong to a lineage's tasks: to its steps,
-- its undos, and to files that were copied into a workspace for a task.
SELECT s.exec_id::text AS id FROM steps s JOIN tasks t ON t.id = s.task_id
WHERE t.org_id = @org_id AND (t.id = @lineage_id OR t.lineage_id = @lineage_id AND t.lineage_id <> t.id) AND s.exec_id = ANY (@ids::text[])
UNION SELECT s.id FROM steps s JOIN tasks t ON t.id = s.task_id
WHERE t.org_id = @org_id AND (t.id = @lineage_id OR t.lineage_id = @lineage_id AND t.lineage_id <> t.id) AND s.id = ANY (@ids::text[])
UNION SELECT u.id FROM undos u JOIN tasks t ON t.id = u.task_id
WHERE t.org_id = @org_id AND (t.id = @lineage_id OR t.lineage_id = @lineage_id AND t.lineage_id <> t.id) AND u.id = ANY (@ids::text[])
UNION SELECT j.id FROM jobs j JOIN tasks t ON t.id = j.task_id
WHERE t.org_id = @org_id AND (t.id = @lineage_id OR t.lineage_id = @lineage_id AND t.lineage_id <> t.id) AND j.id = ANY (@ids::text[])
UNION SELECT 'input_' || t.id FROM tasks t
WHERE t.org_id = @org_id AND (t.id = @lineage_id OR t.lineage_id = @lineage_id AND t.lineage_id <> t.id) AND 'input_' || t.id = ANY (@ids::text[]);

-- name: StepsThatUsed :many
-- A task's steps that ran one of some tools.
SELECT id, number, tool FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND started_at IS NOT NULL AND tool = ANY (@tools::text[])
ORDER BY number LIMIT 1000;

-- name: MarkRestored :exec
-- Whose changes a restore undid.
UPDATE step_changes SET undone_at = now(), undo_id = @undo_id
WHERE org_id = @org_id AND node_id = @node_id AND jail_id = @jail_id AND change_id = ANY (@change_ids::text[]) AND undone_at IS NULL;

-- name: FinishUndo :one
UPDATE undos SET state = @state, files = @files, original_digest = @original_digest, restored_digest = @restored_digest, finished_at = now()
WHERE org_id = @org_id AND id = @id AND state = 'pending'
RETURNING *;

-- name: MarkUndone :exec
UPDATE step_changes SET undone_at = now(), undo_id = @undo_id
WHERE org_id = @org_id AND node_id = @node_id AND jail_id = @jail_id AND change_id = ANY(@change_ids::text[]);

-- name: MarkMachineUndone :exec
-- Once the undos in all folders of a machine that were begun together are done.
UPDATE step_changes c SET undone_at = now(), undo_id = @undo_id
WHERE c.org_id = @org_id AND c.node_id = @node_id AND c.jail_id = @jail_id AND c.change_id = ANY (@change_ids::text[])
  AND NOT EXISTS (SELECT 1 FROM undos u WHERE u.org_id = @org_id AND u.task_id = c.task_id AND u.created_at = @begun_at
                  AND u.change_ids = @change_ids::text[] AND u.state <> 'done');

-- name: CreateExecUndo :one
INSERT INTO undos (id, org_id, exec_id, node_id, jail_id, step_ids, change_ids, on_conflict, expect_state, asked_by, address, user_agent)
VALUES (@id, @org_id, @exec_id, @node_id, @jail_id, '{}', @change_ids, @on_conflict, @expect_state, @asked_by, @address, @user_agent)
RETURNING *;

-- name: PendingExecUndos :many
SELECT * FROM undos WHERE org_id = @org_id AND exec_id = @exec_id AND state = 'pending' ORDER BY created_at, id;

-- name: MarkExecUndone :exec
UPDATE node_execs SET undone_at = clock_timestamp(), undo_id = @undo_id WHERE org_id = @org_id AND id = @id;

-- name: WorkspaceAfterStep :one
-- The state in which the last of a task's steps up to a number left the workspace.
SELECT node_id::text AS node_id, jail_id, workspace_record AS record, workspace_state::bigint AS state FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND number <= @number AND workspace_state IS NOT NULL AND node_id IS NOT NULL
ORDER BY number DESC LIMIT 1;

-- name: WorkspaceBeforeStep :one
-- The state in which the first of a task's steps after a number that changed
-- something found the workspace.
SELECT c.node_id, c.jail_id, s.workspace_record AS record, c.state_before AS state
FROM steps s JOIN step_changes c ON c.step_id = s.id AND c.job_id = ''
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.number > @number AND s.workspace_state IS NOT NULL
ORDER BY s.number LIMIT 1;

-- name: WorkspaceFoundByStep :one
-- The state in which a step that changed something found the workspace.
SELECT c.node_id, c.jail_id, s.workspace_record AS record, c.state_before AS state
FROM steps s JOIN step_changes c ON c.step_id = s.id AND c.job_id = ''
WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.number = @number AND s.workspace_state IS NOT NULL;

-- name: ChangesOfTask :many
-- The ids under which a node has recorded what a task changed in a workspace and that were not
-- undone, the latest ones.
SELECT change_id FROM step_changes
WHERE org_id = @org_id AND task_id = @task_id AND node_id = @node_id AND jail_id = @jail_id AND undone_at IS NULL
ORDER BY state_after DESC LIMIT @max_rows;
