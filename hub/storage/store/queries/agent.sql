-- name: CreateAgent :execrows
INSERT INTO agents (id, org_id, name, owner) VALUES (@id, @org_id, @name, @owner) ON CONFLICT (org_id, name) DO NOTHING;

-- name: LockAgentByName :one
SELECT * FROM agents WHERE org_id = @org_id AND name = @name FOR UPDATE;

-- name: AgentVersion :one
SELECT * FROM agent_versions WHERE org_id = @org_id AND agent_id = @agent_id AND version = @version;

-- name: CreateAgentVersion :exec
INSERT INTO agent_versions (agent_id, version, org_id, markdown, script, digest, description, provider, model, created_by, created_by_role)
VALUES (@agent_id, @version, @org_id, @markdown, @script, @digest, @description, @provider, @model, @created_by, @created_by_role);

-- name: SetAgentVersion :exec
UPDATE agents SET current_version = @version, updated_at = now() WHERE org_id = @org_id AND id = @id;

-- name: SetAgentHome :exec
UPDATE agents SET home_node_id = @node_id WHERE org_id = @org_id AND id = @id AND home_node_id IS NULL;

-- name: LockAgent :one
SELECT * FROM agents WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: SetAgentStatus :exec
UPDATE agents SET status = @status, status_reason = @status_reason, status_at = now(), suspended_by = @suspended_by,
    failures = 0, last_failed_task = '', updated_at = now()
WHERE org_id = @org_id AND id = @id;

-- name: CountAgentFailure :one
-- A task counts once, however often it fails.
UPDATE agents SET failures = failures + CASE WHEN last_failed_task = @task_id THEN 0 ELSE 1 END, last_failed_task = @task_id
WHERE org_id = @org_id AND id = @id RETURNING *;

-- name: ForgetAgentFailures :exec
UPDATE agents SET failures = 0, last_failed_task = '' WHERE org_id = @org_id AND id = @id AND failures > 0;

-- name: FindAgents :many
-- By name, id or id prefix; see store.One.
SELECT id, (name = @ref OR id = @ref)::boolean AS exact FROM agents
WHERE org_id = @org_id AND (name = @ref OR id = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: GetAgent :one
SELECT sqlc.embed(a), v.description, v.provider, v.model,
       EXISTS (SELECT 1 FROM tasks t WHERE t.org_id = a.org_id AND t.agent_id = a.id
                 AND t.admitted_at IS NOT NULL AND t.state IN ('starting', 'running')) AS active,
       EXISTS (SELECT 1 FROM triggers g WHERE g.org_id = a.org_id AND g.agent_id = a.id AND g.deleted_at IS NULL AND g.state = 'enabled'
                 AND g.kind <> 'manual') AS listening
FROM agents a JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version
WHERE a.org_id = @org_id AND a.id = @id;

-- name: ListAgents :many
SELECT sqlc.embed(a), v.description, v.provider, v.model,
       EXISTS (SELECT 1 FROM tasks t WHERE t.org_id = a.org_id AND t.agent_id = a.id
                 AND t.admitted_at IS NOT NULL AND t.state IN ('starting', 'running')) AS active,
       EXISTS (SELECT 1 FROM triggers g WHERE g.org_id = a.org_id AND g.agent_id = a.id AND g.deleted_at IS NULL AND g.state = 'enabled'
                 AND g.kind <> 'manual') AS listening
FROM agents a JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version
WHERE a.org_id = @org_id AND a.name > @after_name
ORDER BY a.name LIMIT @max_rows;

-- name: AgentNames :many
SELECT name FROM agents WHERE org_id = @org_id ORDER BY name;

-- name: AgentDescriptions :many
SELECT a.name, v.description FROM agents a JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version
WHERE a.org_id = @org_id AND a.name = ANY (@names::text[]) ORDER BY a.name;

-- name: AgentByName :one
SELECT * FROM agents WHERE org_id = @org_id AND name = @name;
