-- name: BeginRestore :exec
INSERT INTO restores (id, backup_id, taken_at, epoch_floor) VALUES (@id, @backup_id, @taken_at, @epoch_floor);

-- name: RestoredNodes :execrows
-- Every node that may connect is asked for its ledger.
INSERT INTO restored_nodes (node_id, org_id, restore_id)
SELECT n.id, n.org_id, @restore_id FROM nodes n WHERE n.revoked_at IS NULL
ON CONFLICT (node_id) DO UPDATE SET restore_id = excluded.restore_id, compared_at = NULL, recovered = 0, problem = '';

-- name: EndAllSessions :execrows
-- A session that was ended after the backup would be open again.
UPDATE sessions SET ended_at = clock_timestamp() WHERE ended_at IS NULL;

-- name: ForgetNodeSessions :exec
UPDATE node_sessions SET connected = false;

-- name: RestoredTasks :execrows
INSERT INTO restored_tasks (task_id, org_id, restore_id)
SELECT t.id, t.org_id, @restore_id FROM tasks t WHERE t.finished_at IS NULL
ON CONFLICT (task_id) DO UPDATE SET restore_id = excluded.restore_id, verdict = 'pending', reason = '', cleared_at = NULL;

-- name: UnadmitTasks :exec
UPDATE tasks SET admitted_at = NULL, reason = @reason WHERE state = 'queued';

-- name: LeasedTasks :many
SELECT id, org_id FROM tasks WHERE lease_hash IS NOT NULL ORDER BY id;

-- name: DropAcceptedDeliveries :execrows
-- A delivery that waits in the backup may have started its task since.
UPDATE deliveries SET state = 'failed', reason = @reason, handled_at = clock_timestamp() WHERE state = 'accepted';

-- name: DropPendingNotifications :execrows
UPDATE notifications SET state = 'dead', error = @reason, handled_at = clock_timestamp() WHERE state = 'pending';

-- name: OverdueSchedules :many
SELECT id, org_id, spec FROM triggers
WHERE kind = 'cron' AND deleted_at IS NULL AND next_at IS NOT NULL AND next_at <= clock_timestamp() ORDER BY id;

-- name: OrganisationIDs :many
SELECT id FROM organisations ORDER BY id;

-- name: NodesToCompare :many
-- Those that are connected, to any hub, or will not connect any more.
SELECT r.node_id, r.org_id, r.restore_id, s.taken_at, (n.revoked_at IS NOT NULL)::boolean AS revoked
FROM restored_nodes r JOIN restores s ON s.id = r.restore_id JOIN nodes n ON n.id = r.node_id
LEFT JOIN node_sessions o ON o.node_id = r.node_id
WHERE r.compared_at IS NULL AND (n.revoked_at IS NOT NULL OR o.connected)
ORDER BY r.node_id LIMIT @max_rows;

-- name: NodeCompared :exec
UPDATE restored_nodes SET compared_at = clock_timestamp(), recovered = @recovered, problem = @problem
WHERE node_id = @node_id AND org_id = @org_id AND compared_at IS NULL;

-- name: RecoverableSteps :many
SELECT id, task_id, state, run FROM steps WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: KnownNodeExecs :many
SELECT id FROM node_execs WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: CreateRecoveredEffect :exec
INSERT INTO recovered_effects (node_id, effect_id, org_id, restore_id, jail_id, step_id, task_id, what, outcome, began_at)
VALUES (@node_id, @effect_id, @org_id, @restore_id, @jail_id, @step_id, @task_id, @what, @outcome, @began_at)
ON CONFLICT (node_id, effect_id) DO UPDATE SET restore_id = excluded.restore_id, outcome = excluded.outcome;

-- name: RecoveredEffectsOfTask :many
-- Those of a task, by the step or, for a step that the backup does not have, by the jail.
SELECT e.*, n.name AS node_name FROM recovered_effects e JOIN nodes n ON n.id = e.node_id
WHERE e.org_id = @org_id AND e.restore_id = @restore_id
  AND (e.task_id = @task_id OR e.step_id = '' AND e.jail_id <> '' AND e.jail_id = @jail_id::text)
ORDER BY e.began_at, e.effect_id LIMIT @max_rows;

-- name: CountRecoveredEffects :one
-- All of a task, those of them whose step the backup has, and those of the organisation in
-- other jails or on machines whose step the backup does not have: they may be of any task.
SELECT count(*) FILTER (WHERE e.task_id = @task_id OR e.step_id = '' AND e.jail_id <> '' AND e.jail_id = @jail_id::text)::bigint AS own,
       count(*) FILTER (WHERE e.task_id = @task_id AND e.step_id <> '')::bigint AS attached,
       count(*) FILTER (WHERE e.step_id = '' AND e.jail_id <> @jail_id::text)::bigint AS elsewhere
FROM recovered_effects e WHERE e.org_id = @org_id AND e.restore_id = @restore_id;

-- name: OrganisationsCompared :many
-- Those whose nodes have all been compared and whose tasks wait for a verdict.
SELECT DISTINCT t.org_id, t.restore_id FROM restored_tasks t
WHERE t.cleared_at IS NULL AND t.verdict = 'pending'
  AND NOT EXISTS (SELECT 1 FROM restored_nodes n WHERE n.org_id = t.org_id AND n.compared_at IS NULL)
ORDER BY t.org_id;

-- name: RestoreProblems :many
SELECT n.name, r.problem FROM restored_nodes r JOIN nodes n ON n.id = r.node_id
WHERE r.org_id = @org_id AND r.restore_id = @restore_id AND r.problem <> '' ORDER BY n.name;

-- name: TasksToJudge :many
SELECT t.id, t.jail_id FROM restored_tasks r JOIN tasks t ON t.id = r.task_id
WHERE r.org_id = @org_id AND r.verdict = 'pending' AND r.cleared_at IS NULL AND t.finished_at IS NULL AND t.id > @after::text
ORDER BY t.id LIMIT @max_rows;

-- name: JudgeRestoredTask :execrows
UPDATE restored_tasks SET verdict = @verdict, reason = @reason
WHERE task_id = @task_id AND org_id = @org_id AND verdict = 'pending';

-- name: ForgetEndedRestoredTasks :exec
UPDATE restored_tasks r SET cleared_at = clock_timestamp() FROM tasks t
WHERE t.id = r.task_id AND r.cleared_at IS NULL AND t.finished_at IS NOT NULL;

-- name: ClearRestoredTask :execrows
-- A person has looked at it.
UPDATE restored_tasks SET cleared_at = clock_timestamp()
WHERE task_id = @task_id AND org_id = @org_id AND verdict <> 'pending' AND cleared_at IS NULL;

-- name: RestoreHolds :many
-- The tasks of an organisation that do not start because of a restore, and the nodes
-- that have not been compared.
SELECT t.task_id, t.verdict, t.reason, s.taken_at,
       (SELECT coalesce(string_agg(n.name, ', ' ORDER BY n.name), '') FROM restored_nodes r JOIN nodes n ON n.id = r.node_id
        WHERE r.org_id = t.org_id AND r.compared_at IS NULL)::text AS nodes
FROM restored_tasks t JOIN restores s ON s.id = t.restore_id
WHERE t.org_id = @org_id AND t.cleared_at IS NULL;

-- name: RestoreHold :one
-- Why a task waits for a person since a restore; no row if it does not.
SELECT verdict, reason FROM restored_tasks WHERE task_id = @task_id AND org_id = @org_id AND cleared_at IS NULL;

-- name: IsNodeCompared :one
-- Whether a node's ledger was compared since the latest restore, or never has to be.
SELECT (NOT EXISTS (SELECT 1 FROM restored_nodes r WHERE r.org_id = @org_id AND r.node_id = @node_id AND r.compared_at IS NULL))::boolean AS compared;

-- name: RecoveredExecs :many
SELECT effect_id FROM recovered_effects WHERE org_id = @org_id AND node_id = @node_id AND effect_id = ANY (@ids::text[]);

-- name: GrantRecoveredStep :execrows
-- A call that the backup has as not decided: it was granted since, as its node shows.
WITH withdrawn AS (
    UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp()
    WHERE inbox_items.org_id = @org_id AND inbox_items.step_id = @id::text AND inbox_items.state = 'open'
)
UPDATE steps SET state = 'granted', granted_binding = NULL WHERE steps.org_id = @org_id AND steps.id = @id AND steps.state IN ('proposed', 'waiting');

-- name: StartRecoveredStep :execrows
UPDATE steps SET state = 'started', started_at = @began_at::timestamptz, decision_reason = @reason, granted_binding = NULL
WHERE org_id = @org_id AND id = @id AND state = 'granted';
