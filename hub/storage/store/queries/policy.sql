-- name: CurrentPolicies :many
-- The newest version of each policy of an organisation.
SELECT DISTINCT ON (agent_id) * FROM policies WHERE org_id = @org_id ORDER BY agent_id, version DESC;

-- name: GetPolicy :one
-- A version of a policy; 0 for the newest.
SELECT * FROM policies WHERE org_id = @org_id AND agent_id = @agent_id AND (@version::int = 0 OR version = @version::int)
ORDER BY version DESC LIMIT 1;

-- name: CreatePolicy :one
-- Returns no row if another call stored this version first.
INSERT INTO policies (org_id, agent_id, version, yaml, created_by) VALUES (@org_id, @agent_id, @version, @yaml, @created_by)
ON CONFLICT DO NOTHING RETURNING *;

-- name: LiveAllowRules :many
SELECT * FROM allow_rules WHERE org_id = @org_id AND revoked_at IS NULL AND expires_at > clock_timestamp() ORDER BY created_at, id;

-- name: ListAllowRules :many
-- Newest first, after a keyset position.
SELECT sqlc.embed(r), coalesce(a.name, '')::text AS agent_name FROM allow_rules r
LEFT JOIN agents a ON a.org_id = r.org_id AND a.id = r.agent_id
WHERE r.org_id = @org_id AND (@past::boolean OR r.revoked_at IS NULL AND r.expires_at > clock_timestamp())
  AND (@sees_all::boolean OR r.agent_id = '' OR agent_seen(r.agent_id, @viewer::text))
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (r.created_at, r.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY r.created_at DESC, r.id DESC LIMIT @max_rows;

-- name: CreateAllowRule :one
INSERT INTO allow_rules (id, org_id, agent_id, tool, scope, arguments_digest, commands, shape, description, item_id, created_by, expires_at)
VALUES (@id, @org_id, @agent_id, @tool, @scope, sqlc.narg(arguments_digest), @commands, @shape, @description, @item_id, @created_by,
        clock_timestamp() + @lasts::interval)
RETURNING *;

-- name: RevokeAllowRule :one
UPDATE allow_rules SET revoked_by = @revoked_by, revoked_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND revoked_at IS NULL
RETURNING *;

-- name: FindAllowRules :many
SELECT id, (id = @ref)::boolean AS exact FROM allow_rules WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
  AND (@sees_all::boolean OR agent_id = '' OR agent_seen(agent_id, @viewer::text))
ORDER BY exact DESC, id LIMIT 2;

-- name: RevokeShape :many
-- Revokes the rule that allows a shape of calls of an agent.
UPDATE allow_rules SET revoked_by = @revoked_by, revoked_at = clock_timestamp()
WHERE org_id = @org_id AND agent_id IN (@agent_id, '') AND tool = @tool AND scope = 'shape' AND shape = @shape AND revoked_at IS NULL
RETURNING *;

-- name: StepsToReplay :many
-- The newest steps of an organisation, or of one of its agents, with the data
-- that their decisions were based on. They are among those of the newest tasks.
SELECT sqlc.embed(s), t.agent_id, a.name AS agent_name, coalesce(n.labels, '{}')::jsonb AS node_labels
FROM (SELECT tasks.id, tasks.agent_id FROM tasks
      WHERE tasks.org_id = @org_id AND tasks.attempt > 0 AND (@agent_id::text = '' OR tasks.agent_id = @agent_id::text)
      ORDER BY tasks.created_at DESC, tasks.id DESC LIMIT @max_rows) t
JOIN steps s ON s.task_id = t.id AND s.org_id = @org_id JOIN agents a ON a.id = t.agent_id LEFT JOIN nodes n ON n.id = s.node_id
ORDER BY s.proposed_at DESC LIMIT @max_rows;

-- name: LockLimits :exec
-- Locks until the end of the transaction: one call at a time is counted in an
-- organisation.
SELECT pg_advisory_xact_lock(hashtextextended('limits:' || @org_id::text, 0));

-- name: CountLimitedCalls :one
-- Calls of a tool, or of tools of a category, that were not denied, in a
-- period.
SELECT count(*) FROM limited_calls l JOIN steps s ON s.id = l.step_id
WHERE l.org_id = @org_id AND l.proposed_at > clock_timestamp() - @per::interval AND s.state <> 'denied'
  AND (@tool::text = '' OR l.tool = @tool::text) AND (@category::text = '' OR l.category = @category::text);

-- name: CountedCall :exec
INSERT INTO limited_calls (org_id, tool, category, step_id) VALUES (@org_id, @tool, @category, @step_id) ON CONFLICT DO NOTHING;

-- name: DeleteCountedCalls :execrows
DELETE FROM limited_calls WHERE proposed_at < clock_timestamp() - @keep::interval;

-- name: WritingSteps :many
-- The calls of a task that may write files, oldest first, between two numbers;
-- before is 0 for no end. A call that was denied has written nothing.
SELECT id, number, tool, state, arguments_sealed, changed_sealed FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND number > @after AND (@before::int = 0 OR number < @before::int)
  AND tool = ANY(@tools::text[]) AND state <> 'denied'
ORDER BY number LIMIT @max_rows;

-- name: CallsBefore :many
-- The newest calls of a tool by a task that were not denied, before a number, or 0 for all.
SELECT id, number, state, arguments_sealed, changed_sealed FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND tool = @tool AND (@before::int = 0 OR number < @before::int) AND state <> 'denied'
ORDER BY number DESC LIMIT @max_rows;

-- name: LabelsOfNode :one
SELECT labels FROM nodes WHERE org_id = @org_id AND id = @id;

-- name: ChangedFiles :many
-- What the calls of a task changed in its workspace and was not undone, newest
-- first; before is a call's number, or 0 for all.
SELECT c.files, c.changes FROM step_changes c JOIN steps s ON s.id = c.step_id
WHERE c.org_id = @org_id AND c.task_id = @task_id AND c.undone_at IS NULL AND c.jail_id <> 'host' AND (@before::int = 0 OR s.number < @before::int)
ORDER BY s.number DESC LIMIT @max_rows;

-- name: ChangedFilesVersion :one
-- Identifies a result of ChangedFiles: steps are added, and their changes are
-- undone, but never changed otherwise. jobs reports whether the task has jobs, which
-- may have changed any file.
SELECT count(*) AS steps, count(c.undone_at) AS undone, coalesce(max(s.number), 0)::int AS last,
       EXISTS (SELECT 1 FROM jobs j WHERE j.task_id = @task_id) AS jobs FROM step_changes c JOIN steps s ON s.id = c.step_id
WHERE c.org_id = @org_id AND c.task_id = @task_id AND (@before::int = 0 OR s.number < @before::int);
