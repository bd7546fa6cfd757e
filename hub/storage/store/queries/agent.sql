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

-- name: AgentSummaries :many
-- What agents did last and what waits for them, after a name. With user_name only of
-- the tasks of that user.
SELECT a.id, a.name, coalesce(l.id, '')::text AS last_id, coalesce(l.state, '')::text AS last_state, l.finished_at AS last_finished_at,
       coalesce(l.cost_micros, 0)::bigint AS last_cost_micros, coalesce(l.error_code, '')::text AS last_error_code,
       (SELECT count(*) FROM tasks q WHERE q.org_id = a.org_id AND q.agent_id = a.id AND q.finished_at IS NULL AND q.state = 'queued'
          AND (sqlc.narg(user_name)::text IS NULL OR q.created_by = sqlc.narg(user_name)))::int AS queued
FROM agents a
LEFT JOIN LATERAL (
    SELECT t.id, t.state, t.finished_at, t.cost_micros, t.error_code FROM tasks t
    WHERE t.org_id = a.org_id AND t.agent_id = a.id AND t.finished_at IS NOT NULL AND NOT t.override ? 'chat'
      AND (sqlc.narg(user_name)::text IS NULL OR t.created_by = sqlc.narg(user_name))
    ORDER BY t.created_at DESC, t.id DESC LIMIT 1) l ON true
WHERE a.org_id = @org_id AND a.name > @after_name
ORDER BY a.name LIMIT @max_rows;

-- name: AgentDayCosts :many
-- What agents' calls of models cost on each day in UTC since a time.
SELECT t.agent_id, to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')::text AS day, sum(c.cost_micros)::bigint AS cost_micros
FROM model_calls c JOIN tasks t ON t.id = c.task_id
WHERE c.org_id = @org_id AND c.started_at >= @since AND c.basis <> 'reserved' AND t.agent_id = ANY (@agent_ids::text[])
  AND (sqlc.narg(user_name)::text IS NULL OR c.user_name = sqlc.narg(user_name))
GROUP BY 1, 2;

-- name: LiveTaskJails :many
-- The jails of live tasks that have one of their own, with the names of their agents.
SELECT t.jail_id, a.name FROM tasks t JOIN agents a ON a.id = t.agent_id
WHERE t.org_id = @org_id AND t.finished_at IS NULL AND t.workspace_scope = 'task' AND t.started_at IS NOT NULL LIMIT @max_rows;
