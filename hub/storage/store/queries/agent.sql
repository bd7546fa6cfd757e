-- name: CreateAgent :execrows
INSERT INTO agents (id, org_id, name, owner, owner_team, visibility)
VALUES (@id, @org_id, @name, @owner, sqlc.narg(owner_team), @visibility) ON CONFLICT (org_id, name) WHERE NOT released DO NOTHING;

-- name: LockAgentByName :one
SELECT * FROM agents WHERE org_id = @org_id AND name = @name AND NOT released FOR UPDATE;

-- name: AgentVersion :one
SELECT * FROM agent_versions WHERE org_id = @org_id AND agent_id = @agent_id AND version = @version;

-- name: CreateAgentVersion :exec
INSERT INTO agent_versions (agent_id, version, org_id, markdown, script, digest, description, provider, model, created_by, created_by_role, task_type)
VALUES (@agent_id, @version, @org_id, @markdown, @script, @digest, @description, @provider, @model, @created_by, @created_by_role, @task_type);

-- name: SetAgentVersion :exec
UPDATE agents SET current_version = @version, updated_at = now() WHERE org_id = @org_id AND id = @id;

-- name: SetAgentHome :exec
UPDATE agents SET home_node_id = @node_id WHERE org_id = @org_id AND id = @id AND home_node_id IS NULL;

-- name: AgentName :one
-- The name that an agent has now. That of one whose name was freed may be another's: it has
-- its id, which is no name.
SELECT (CASE WHEN released THEN id ELSE name END)::text FROM agents WHERE org_id = @org_id AND id = @id;

-- name: StartableAgent :one
-- Keeps an agent from being deleted or disabled until the end of the transaction.
SELECT * FROM agents WHERE org_id = @org_id AND id = @id FOR KEY SHARE;

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
-- Those that somebody sees, by name, former name, id or id prefix; see store.One. With
-- gone also those that were deleted: by name as long as that is theirs, and by id.
SELECT a.id, (a.name = @ref AND NOT a.released OR a.id = @ref OR f.agent_id IS NOT NULL)::boolean AS exact FROM agents a
LEFT JOIN agent_former_names f ON f.org_id = @org_id AND f.name = @ref AND f.agent_id = a.id
WHERE a.org_id = @org_id AND (a.name = @ref AND NOT a.released OR a.id = @ref OR a.id LIKE @prefix OR f.agent_id IS NOT NULL)
  AND (@gone::boolean OR a.deleted_at IS NULL) AND (@sees_all::boolean OR agent_seen(a.id, @viewer::text))
ORDER BY exact DESC, (a.name = @ref AND NOT a.released) DESC, a.id LIMIT 2;

-- name: GetAgent :one
SELECT sqlc.embed(a), v.description, v.provider, v.model,
       EXISTS (SELECT 1 FROM tasks t WHERE t.org_id = a.org_id AND t.agent_id = a.id
                 AND t.admitted_at IS NOT NULL AND t.state IN ('starting', 'running')) AS active,
       EXISTS (SELECT 1 FROM triggers g WHERE g.org_id = a.org_id AND g.agent_id = a.id AND g.deleted_at IS NULL AND g.state = 'enabled'
                 AND g.kind <> 'manual') AS listening,
       coalesce(m.name, '')::text AS team_name
FROM agents a JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version
LEFT JOIN teams m ON m.id = a.owner_team
WHERE a.org_id = @org_id AND a.id = @id;

-- name: ListAgents :many
SELECT sqlc.embed(a), v.description, v.provider, v.model,
       EXISTS (SELECT 1 FROM tasks t WHERE t.org_id = a.org_id AND t.agent_id = a.id
                 AND t.admitted_at IS NOT NULL AND t.state IN ('starting', 'running')) AS active,
       EXISTS (SELECT 1 FROM triggers g WHERE g.org_id = a.org_id AND g.agent_id = a.id AND g.deleted_at IS NULL AND g.state = 'enabled'
                 AND g.kind <> 'manual') AS listening,
       coalesce(m.name, '')::text AS team_name
FROM agents a JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version
LEFT JOIN teams m ON m.id = a.owner_team
WHERE a.org_id = @org_id AND a.name > @after_name AND NOT a.released AND (a.deleted_at IS NOT NULL) = @deleted::boolean
  AND (@sees_all::boolean OR agent_seen(a.id, @viewer::text))
ORDER BY a.name LIMIT @max_rows;

-- name: AgentNames :many
-- Of those that somebody sees.
SELECT a.name FROM agents a WHERE a.org_id = @org_id AND a.deleted_at IS NULL AND (@sees_all::boolean OR agent_seen(a.id, @viewer::text)) ORDER BY a.name;

-- name: AgentDescriptions :many
SELECT a.name, v.description FROM agents a JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.current_version
WHERE a.org_id = @org_id AND a.name = ANY (@names::text[]) AND a.deleted_at IS NULL ORDER BY a.name;

-- name: AgentByName :one
-- By its name, or one that it had.
SELECT a.* FROM agents a
WHERE a.org_id = @org_id AND a.deleted_at IS NULL
  AND (a.name = @name OR a.id = (SELECT f.agent_id FROM agent_former_names f WHERE f.org_id = @org_id AND f.name = @name))
ORDER BY (a.name = @name) DESC LIMIT 1;

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
WHERE a.org_id = @org_id AND a.name > @after_name AND a.deleted_at IS NULL AND (@sees_all::boolean OR agent_seen(a.id, @viewer::text))
ORDER BY a.name LIMIT @max_rows;

-- name: AgentDayCosts :many
-- What agents' calls of models cost on each day in UTC since a time.
SELECT t.agent_id, to_char(c.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')::text AS day, sum(c.cost_micros)::bigint AS cost_micros
FROM model_calls c JOIN tasks t ON t.id = c.task_id
WHERE c.org_id = @org_id AND c.started_at >= @since AND c.basis <> 'reserved' AND t.agent_id = ANY (@agent_ids::text[])
  AND (sqlc.narg(user_name)::text IS NULL OR c.user_name = sqlc.narg(user_name))
GROUP BY 1, 2;

-- name: LiveTaskJails :many
-- The jails of live tasks that have one of their own, with the names of their agents, of
-- agents that somebody sees.
SELECT t.jail_id, a.name FROM tasks t JOIN agents a ON a.id = t.agent_id
WHERE t.org_id = @org_id AND (@sees_all::boolean OR agent_seen(a.id, @viewer::text)) AND t.finished_at IS NULL AND t.workspace_scope = 'task' AND t.started_at IS NOT NULL LIMIT @max_rows;

-- name: AgentJails :many
-- The jails of an agent: its own, and those of its live tasks that have one of their own,
-- with the nodes that they are on; its own come first. A task of an agent's jail that somebody does not see is
-- no reason to hide the jail.
SELECT j.jail_id, j.node_id, coalesce(n.name, '')::text AS node_name, j.task_id FROM (
    SELECT DISTINCT t.jail_id, coalesce(t.node_id, '')::text AS node_id, CASE t.workspace_scope WHEN 'task' THEN t.id ELSE '' END::text AS task_id
    FROM tasks t WHERE t.org_id = @org_id AND t.agent_id = @agent_id AND t.finished_at IS NULL AND t.started_at IS NOT NULL AND t.node_id IS NOT NULL
      AND (@sees_all::boolean OR t.workspace_scope <> 'task' OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
    UNION
    SELECT @own_jail::text, a.home_node_id, '' FROM agents a WHERE a.org_id = @org_id AND a.id = @agent_id AND a.home_node_id IS NOT NULL
) AS j LEFT JOIN nodes n ON n.id = j.node_id
ORDER BY j.jail_id <> @own_jail, j.jail_id, j.node_id LIMIT @max_rows;

-- name: AgentSeen :one
-- Whether somebody sees an agent; no row if there is no such agent.
SELECT (@sees_all::boolean OR agent_seen(id, @viewer::text))::boolean FROM agents WHERE org_id = @org_id AND id = @id;

-- name: AgentOwned :one
-- Whether somebody owns an agent; no row if there is no such agent.
SELECT (@sees_all::boolean OR agent_owned(id, @viewer::text))::boolean FROM agents WHERE org_id = @org_id AND id = @id;

-- name: AgentsOwned :many
-- Those of some agents that somebody owns.
SELECT id FROM agents WHERE org_id = @org_id AND id = ANY (@ids::text[]) AND agent_owned(id, @viewer::text);

-- name: AgentNamesSeen :many
-- The agents that somebody sees, of some names.
SELECT a.name FROM agents a WHERE a.org_id = @org_id AND a.name = ANY (@names::text[]) AND NOT a.released
  AND (@sees_all::boolean OR agent_seen(a.id, @viewer::text));

-- name: SetAgentOwner :exec
UPDATE agents SET owner = @owner, owner_team = sqlc.narg(owner_team), visibility = @visibility, updated_at = now() WHERE org_id = @org_id AND id = @id;

-- name: CountAgentsOfTeam :one
SELECT count(*) FROM agents WHERE org_id = @org_id AND owner_team = @team_id::text AND NOT released;

-- name: FormerName :one
-- The agent that had a name before.
SELECT sqlc.embed(a) FROM agent_former_names f JOIN agents a ON a.id = f.agent_id WHERE f.org_id = @org_id AND f.name = @name;

-- name: PutFormerName :exec
INSERT INTO agent_former_names (org_id, name, agent_id) VALUES (@org_id, @name, @agent_id)
ON CONFLICT (org_id, name) DO UPDATE SET agent_id = excluded.agent_id, renamed_at = excluded.renamed_at;

-- name: DeleteFormerName :exec
DELETE FROM agent_former_names WHERE org_id = @org_id AND name = @name;

-- name: DeleteFormerNames :exec
DELETE FROM agent_former_names WHERE org_id = @org_id AND agent_id = @agent_id;

-- name: FormerNames :many
SELECT name FROM agent_former_names WHERE org_id = @org_id AND agent_id = @agent_id ORDER BY name;

-- name: SetAgentName :exec
UPDATE agents SET name = @name, updated_at = now() WHERE org_id = @org_id AND id = @id;

-- name: RenameInCredentials :exec
-- Credentials name the agents that may use them.
UPDATE egress_credentials SET agents = array_replace(agents, @old_name::text, @new_name::text) WHERE org_id = @org_id AND @old_name::text = ANY (agents);

-- name: ForgetInCredentials :exec
-- What is given to former names of an agent goes to no other one that gets them.
UPDATE egress_credentials SET agents = ARRAY(SELECT x FROM unnest(agents) AS x WHERE x <> ALL (@names::text[])) WHERE org_id = @org_id AND agents && @names::text[];

-- name: RenameInDestinations :exec
-- Destinations name the agents whose events they get, and those that may use them.
UPDATE destinations SET spec = destination_renamed(spec, @old_name::text, @new_name::text), updated_at = clock_timestamp()
WHERE org_id = @org_id AND deleted_at IS NULL AND (spec->'agents' ? @old_name::text OR spec->'forAgents'->'agents' ? @old_name::text);

-- name: ForgetInDestinations :exec
UPDATE destinations SET spec = destination_without(spec, @names::text[], @name::text), updated_at = clock_timestamp()
WHERE org_id = @org_id AND deleted_at IS NULL AND (spec->'agents' ?| @names::text[] OR spec->'forAgents'->'agents' ?| @names::text[]);

-- name: DeleteAgent :exec
UPDATE agents SET deleted_at = clock_timestamp(), deleted_by = @deleted_by, status = 'disabled', status_reason = @status_reason, status_at = now(),
    suspended_by = '', updated_at = now()
WHERE org_id = @org_id AND id = @id;

-- name: UndeleteAgent :exec
UPDATE agents SET deleted_at = NULL, deleted_by = '', status = 'idle', status_reason = '', status_at = now(), failures = 0, last_failed_task = '', updated_at = now()
WHERE org_id = @org_id AND id = @id;

-- name: ReleaseAgents :many
-- Frees the names of agents whose deletion can no longer be undone. Nothing that goes by
-- the name may come to another agent that gets it: neither triggers nor credentials nor
-- destinations.
WITH due AS (
    UPDATE agents SET released = true, owner_team = NULL WHERE deleted_at <= clock_timestamp() - @kept::interval AND NOT released
      AND (@org_id::text = '' OR org_id = @org_id::text)
    RETURNING id, org_id, name
), stopped AS (
    UPDATE triggers t SET deleted_at = clock_timestamp(), state = 'disabled', reason = 'deleted', revision = t.revision + 1,
        sealed = NULL, sealed_before = NULL, before_until = NULL, slot_at = NULL, next_at = NULL
    FROM due WHERE t.agent_id = due.id AND t.deleted_at IS NULL
), gone AS (
    SELECT org_id, array_agg(name) AS names FROM (SELECT org_id, name FROM due
        UNION ALL SELECT f.org_id, f.name FROM agent_former_names f JOIN due d ON d.id = f.agent_id) AS n GROUP BY org_id
), forgotten AS (
    DELETE FROM agent_former_names f USING due WHERE f.agent_id = due.id
), revoked AS (
    UPDATE egress_credentials c SET agents = ARRAY(SELECT x FROM unnest(c.agents) AS x WHERE x <> ALL (g.names))
    FROM gone g WHERE g.org_id = c.org_id AND c.agents && g.names
), closed AS (
    -- No agent is called nobody@: events of none are left of a choice that names only these.
    UPDATE destinations t SET spec = destination_without(t.spec, g.names, 'nobody@'), updated_at = clock_timestamp()
    FROM gone g WHERE g.org_id = t.org_id AND t.deleted_at IS NULL AND (t.spec->'agents' ?| g.names OR t.spec->'forAgents'->'agents' ?| g.names)
)
SELECT id, org_id, name FROM due;

-- name: OpenTasksOfAgent :many
-- The tasks of an agent that have not ended, oldest first.
SELECT id, state, started_at FROM tasks WHERE org_id = @org_id AND agent_id = @agent_id AND finished_at IS NULL ORDER BY created_at, id LIMIT @max_rows;

-- name: CountOpenTasksOfAgent :one
SELECT count(*) FROM tasks WHERE org_id = @org_id AND agent_id = @agent_id AND finished_at IS NULL;

-- name: StopTriggersOfAgent :many
-- Disables the triggers that are enabled or tripped, and returns their names.
UPDATE triggers SET state = 'disabled', reason = @reason, state_at = clock_timestamp(), slot_at = NULL, next_at = NULL,
    revision = revision + 1, updated_at = clock_timestamp()
WHERE org_id = @org_id AND agent_id = @agent_id AND deleted_at IS NULL AND state = 'enabled'
RETURNING name;

-- name: TriggersStoppedWithAgent :many
SELECT id FROM triggers WHERE org_id = @org_id AND agent_id = @agent_id AND deleted_at IS NULL AND state = 'disabled' AND reason = @reason ORDER BY name;

-- name: AgentVersions :many
-- The newest first, below a number.
SELECT * FROM agent_versions WHERE org_id = @org_id AND agent_id = @agent_id AND (@below::int = 0 OR version < @below::int)
ORDER BY version DESC LIMIT @max_rows;

-- name: LiveName :one
-- The agent that has a name, if any.
SELECT id FROM agents WHERE org_id = @org_id AND name = @name AND NOT released;
