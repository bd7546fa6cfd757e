-- name: CurrentPolicies :many
-- The newest version of each policy of an organisation.
SELECT DISTINCT ON (agent_id) * FROM policies WHERE org_id = @org_id ORDER BY agent_id, version DESC;

-- name: GetPolicy :one
-- A version of a policy; 0 for the newest.
SELECT * FROM policies WHERE org_id = @org_id AND agent_id = @agent_id AND (@version::int = 0 OR version = @version::int)
ORDER BY version DESC LIMIT 1;

-- name: CreatePolicy :one
-- Answers no row when somebody else stored this version first.
INSERT INTO policies (org_id, agent_id, version, yaml, created_by) VALUES (@org_id, @agent_id, @version, @yaml, @created_by)
ON CONFLICT DO NOTHING RETURNING *;

-- name: LiveAllowRules :many
SELECT * FROM allow_rules WHERE org_id = @org_id AND revoked_at IS NULL AND expires_at > clock_timestamp() ORDER BY created_at, id;

-- name: ListAllowRules :many
SELECT sqlc.embed(r), coalesce(a.name, '')::text AS agent_name FROM allow_rules r
LEFT JOIN agents a ON a.org_id = r.org_id AND a.id = r.agent_id
WHERE r.org_id = @org_id AND (@past::boolean OR r.revoked_at IS NULL AND r.expires_at > clock_timestamp())
ORDER BY r.created_at DESC, r.id LIMIT 500;

-- name: CreateAllowRule :one
INSERT INTO allow_rules (id, org_id, agent_id, tool, scope, arguments_digest, commands, description, item_id, created_by, expires_at)
VALUES (@id, @org_id, @agent_id, @tool, @scope, sqlc.narg(arguments_digest), @commands, @description, @item_id, @created_by,
        clock_timestamp() + @lasts::interval)
RETURNING *;

-- name: RevokeAllowRule :one
UPDATE allow_rules SET revoked_by = @revoked_by, revoked_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND revoked_at IS NULL
RETURNING *;

-- name: FindAllowRules :many
SELECT id, (id = @ref)::boolean AS exact FROM allow_rules WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: StepsToReplay :many
-- The newest steps of an organisation, or of one of its agents, with what their
-- calls were decided by.
SELECT sqlc.embed(s), t.agent_id, a.name AS agent_name, coalesce(n.labels, '{}')::jsonb AS node_labels
FROM steps s JOIN tasks t ON t.id = s.task_id JOIN agents a ON a.id = t.agent_id LEFT JOIN nodes n ON n.id = s.node_id
WHERE s.org_id = @org_id AND (@agent_id::text = '' OR t.agent_id = @agent_id::text)
ORDER BY s.proposed_at DESC LIMIT @max_rows;

-- name: CountCalls :one
-- Calls of a tool, or of tools of a category, that were not denied, since a while.
SELECT count(*) FROM steps
WHERE org_id = @org_id AND proposed_at > clock_timestamp() - @per::interval AND state <> 'denied'
  AND (@tool::text = '' OR tool = @tool::text) AND (@category::text = '' OR category = @category::text);

-- name: WrittenFiles :many
-- What a task wrote with tools for files, the newest first.
SELECT id, tool, arguments_sealed, changed_sealed FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND tool IN ('file_write', 'file_append') AND state IN ('started', 'succeeded', 'unknown')
ORDER BY number DESC LIMIT 20;

-- name: LabelsOfNode :one
SELECT labels FROM nodes WHERE org_id = @org_id AND id = @id;
