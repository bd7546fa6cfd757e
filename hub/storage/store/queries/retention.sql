-- name: RetentionRules :many
SELECT * FROM retention_rules WHERE org_id = @org_id ORDER BY kind;

-- name: RulesToCollect :many
-- Of all organisations.
SELECT org_id, kind, days FROM retention_rules WHERE days > 0 ORDER BY org_id, kind;

-- name: SetRetentionRule :exec
INSERT INTO retention_rules (org_id, kind, days, changed_by) VALUES (@org_id, @kind, @days, @changed_by)
ON CONFLICT (org_id, kind) DO UPDATE SET days = excluded.days, changed_by = excluded.changed_by, changed_at = clock_timestamp();

-- name: RetentionProgress :many
SELECT * FROM retention_progress WHERE org_id = @org_id ORDER BY kind;

-- name: LockRetention :exec
-- Who changes rules or holds waits for a batch, and a batch for them.
SELECT 1 FROM retention_rules WHERE org_id = @org_id ORDER BY kind FOR UPDATE;

-- name: LockRetentionRule :one
SELECT days FROM retention_rules WHERE org_id = @org_id AND kind = @kind FOR UPDATE;

-- name: TasksToCollect :many
-- The next tasks whose time is over. One is kept while another of its lineage goes on, which may
-- still read what it left, and is collected with that one.
SELECT t.id, t.lineage_id, t.finished_at::timestamptz AS finished_at,
       (EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = t.id)
        OR EXISTS (SELECT 1 FROM tasks o WHERE o.org_id = t.org_id AND o.finished_at IS NULL
                   AND (o.id = t.lineage_id OR o.lineage_id = t.lineage_id AND o.lineage_id <> o.id)))::boolean AS kept
FROM tasks t LEFT JOIN retention_progress p ON p.org_id = t.org_id AND p.kind = @kind
WHERE t.org_id = @org_id AND t.finished_at IS NOT NULL AND t.finished_at < clock_timestamp() - make_interval(days => @days::int)
  AND (t.finished_at, t.id) > (coalesce(p.after_time, to_timestamp(0)), coalesce(p.after_id, ''))
ORDER BY t.finished_at, t.id LIMIT @max_rows;

-- name: EndedOfLineages :many
-- The tasks of lineages whose time is over and that no hold keeps.
SELECT t.id FROM tasks t
WHERE t.org_id = @org_id AND (t.id = ANY (@lineages::text[]) OR t.lineage_id = ANY (@lineages::text[]) AND t.lineage_id <> t.id)
  AND t.finished_at < clock_timestamp() - make_interval(days => @days::int)
  AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = t.id)
ORDER BY t.id;

-- name: RecordCollected :exec
INSERT INTO retention_progress AS p (org_id, kind, after_time, after_id, deleted, deleted_at)
VALUES (@org_id, @kind, @after_time, @after_id, @deleted, clock_timestamp())
ON CONFLICT (org_id, kind) DO UPDATE SET after_time = excluded.after_time, after_id = excluded.after_id,
    deleted = p.deleted + excluded.deleted, deleted_at = clock_timestamp();

-- name: CountCollected :exec
-- Without going on behind what was collected.
INSERT INTO retention_progress AS p (org_id, kind, deleted, deleted_at) VALUES (@org_id, @kind, @deleted, clock_timestamp())
ON CONFLICT (org_id, kind) DO UPDATE SET deleted = p.deleted + excluded.deleted, deleted_at = clock_timestamp();

-- name: CollectAgain :exec
-- From the beginning: what was kept may be collected now.
UPDATE retention_progress SET after_time = to_timestamp(0), after_id = '' WHERE org_id = @org_id;

-- name: CollectTurns :execrows
DELETE FROM turns WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);

-- name: CollectSteps :execrows
-- Number, tool, state and times are kept: they are the record that it ran. What the search finds
-- of the rest goes with it.
WITH unfound AS (
    DELETE FROM search_entries s WHERE s.org_id = @org_id AND s.task_id = ANY (@tasks::text[]) AND s.kind IN ('call', 'output')
)
UPDATE steps SET arguments = '{}', arguments_sealed = '', reasoning = '', observation = '', decision = '{}',
    changed_arguments = CASE WHEN changed_arguments IS NOT NULL THEN '{}'::jsonb END,
    changed_sealed = CASE WHEN changed_sealed IS NOT NULL THEN ''::bytea END
WHERE steps.org_id = @org_id AND steps.task_id = ANY (@tasks::text[]) AND (observation <> '' OR arguments <> '{}' OR arguments_sealed <> '');

-- name: CollectStepImages :execrows
DELETE FROM step_images WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);

-- name: CollectBrowserSessions :execrows
DELETE FROM browser_sessions WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);

-- name: CollectInputs :execrows
DELETE FROM task_inputs WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);

-- name: CollectInbox :execrows
DELETE FROM inbox_items WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]) AND state <> 'open';

-- name: CollectModelCalls :execrows
DELETE FROM model_calls WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]) AND settled_at IS NOT NULL;

-- name: CollectArtifacts :execrows
DELETE FROM artifact_transfers WHERE org_id = @org_id AND to_task_id = ANY (@tasks::text[]) AND state <> 'pending';

-- name: RetentionPlan :one
-- What would be deleted now of each kind.
WITH due AS (
    SELECT t.id, EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = t.id) AS held FROM tasks t
    WHERE t.org_id = @org_id AND t.finished_at IS NOT NULL AND t.finished_at < clock_timestamp() - make_interval(days => @days::int)
), free AS (SELECT id FROM due WHERE NOT held)
SELECT (SELECT count(*) FROM due WHERE held)::bigint AS held_tasks,
       (SELECT count(*) FROM free)::bigint AS tasks,
       (CASE @kind::text
        WHEN 'events' THEN (SELECT count(*) FROM events x WHERE x.org_id = @org_id AND x.task_id IN (SELECT id FROM free))
        WHEN 'turns' THEN (SELECT count(*) FROM turns x WHERE x.org_id = @org_id AND x.task_id IN (SELECT id FROM free))
        WHEN 'steps' THEN (SELECT count(*) FROM steps x WHERE x.org_id = @org_id AND x.task_id IN (SELECT id FROM free) AND (x.observation <> '' OR x.arguments <> '{}'))
        WHEN 'inputs' THEN (SELECT count(*) FROM task_inputs x WHERE x.org_id = @org_id AND x.task_id IN (SELECT id FROM free))
        WHEN 'inbox' THEN (SELECT count(*) FROM inbox_items x WHERE x.org_id = @org_id AND x.task_id IN (SELECT id FROM free) AND x.state <> 'open')
        WHEN 'model_calls' THEN (SELECT count(*) FROM model_calls x WHERE x.org_id = @org_id AND x.task_id IN (SELECT id FROM free) AND x.settled_at IS NOT NULL)
        WHEN 'artifacts' THEN (SELECT count(*) FROM artifact_transfers x WHERE x.org_id = @org_id AND x.to_task_id IN (SELECT id FROM free) AND x.state <> 'pending')
        ELSE 0 END)::bigint AS rows;

-- name: SetLegalHold :one
INSERT INTO legal_holds (task_id, org_id, reason, set_by) VALUES (@task_id, @org_id, @reason, @set_by)
ON CONFLICT (task_id) DO UPDATE SET reason = excluded.reason, set_by = excluded.set_by, set_at = clock_timestamp()
RETURNING *;

-- name: ReleaseLegalHold :execrows
DELETE FROM legal_holds WHERE task_id = @task_id AND org_id = @org_id;

-- name: ListLegalHolds :many
SELECT * FROM legal_holds WHERE org_id = @org_id
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (set_at, task_id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY set_at DESC, task_id DESC LIMIT @max_rows;
