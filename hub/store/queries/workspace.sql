-- name: RecordStepChanges :exec
INSERT INTO step_changes (step_id, org_id, task_id, node_id, jail_id, change_id, state_before, state_after, files, changes, shared_with, unkept)
VALUES (@step_id, @org_id, @task_id, @node_id, @jail_id, @change_id, @state_before, @state_after, @files, @changes, @shared_with, @unkept)
ON CONFLICT (step_id) DO NOTHING;

-- name: ListStepChanges :many
SELECT sqlc.embed(step_changes), steps.number, steps.tool, steps.finished_at
FROM step_changes JOIN steps ON steps.id = step_changes.step_id
WHERE step_changes.org_id = @org_id AND step_changes.task_id = @task_id
ORDER BY steps.number;

-- name: CreateUndo :one
INSERT INTO undos (id, org_id, task_id, node_id, jail_id, step_ids, change_ids, on_conflict, expect_state, asked_by, address, user_agent)
VALUES (@id, @org_id, @task_id, @node_id, @jail_id, @step_ids, @change_ids, @on_conflict, @expect_state, @asked_by, @address, @user_agent)
RETURNING *;

-- name: PendingUndos :many
SELECT * FROM undos WHERE org_id = @org_id AND task_id = @task_id AND state = 'pending' ORDER BY created_at, id;

-- name: FinishUndo :one
UPDATE undos SET state = @state, files = @files, original_digest = @original_digest, restored_digest = @restored_digest, finished_at = now()
WHERE org_id = @org_id AND id = @id AND state = 'pending'
RETURNING *;

-- name: MarkUndone :exec
UPDATE step_changes SET undone_at = now(), undo_id = @undo_id
WHERE org_id = @org_id AND step_id = ANY(@step_ids::text[]);
