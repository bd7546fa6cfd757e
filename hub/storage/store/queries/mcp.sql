-- name: MCPToolsOf :many
SELECT * FROM mcp_tools WHERE org_id = @org_id AND agent_id = @agent_id ORDER BY name;

-- name: MCPTool :one
SELECT * FROM mcp_tools WHERE org_id = @org_id AND agent_id = @agent_id AND name = @name;

-- name: LockMCPTools :many
SELECT * FROM mcp_tools WHERE org_id = @org_id AND agent_id = @agent_id AND server = @server ORDER BY name FOR UPDATE;

-- name: AddMCPTool :execrows
-- One that is accepted at once, as the tools that a server offers first are.
INSERT INTO mcp_tools (org_id, agent_id, name, server, tool, agreed, agreed_digest, agreed_at)
VALUES (@org_id, @agent_id, @name, @server, @tool, @definition, @digest, now())
ON CONFLICT DO NOTHING;

-- name: AddOfferedMCPTool :execrows
INSERT INTO mcp_tools (org_id, agent_id, name, server, tool, offered, offered_digest, offered_at)
VALUES (@org_id, @agent_id, @name, @server, @tool, @definition, @digest, now())
ON CONFLICT DO NOTHING;

-- name: OfferMCPTool :execrows
-- What a server offers now; null for the accepted definition.
UPDATE mcp_tools SET offered = sqlc.narg(definition), offered_digest = sqlc.narg(digest), gone = @gone,
    offered_at = CASE WHEN CAST(sqlc.narg(digest) AS text) IS NULL THEN NULL ELSE now() END
WHERE org_id = @org_id AND agent_id = @agent_id AND name = @name
    AND (offered_digest IS DISTINCT FROM sqlc.narg(digest) OR gone <> @gone);

-- name: AgreeMCPTool :execrows
-- Accepts the definition that was shown, if the server still offers it.
UPDATE mcp_tools SET agreed = offered, agreed_digest = offered_digest, agreed_by = @agreed_by, agreed_at = now(),
    offered = NULL, offered_digest = NULL, offered_at = NULL
WHERE org_id = @org_id AND agent_id = @agent_id AND name = @name AND offered_digest = @digest;

-- name: AddStepImage :exec
INSERT INTO step_images (org_id, step_id, task_id, place, media_type, data, for_people, mark)
VALUES (@org_id, @step_id, @task_id, @place, @media_type, @data, @for_people, sqlc.narg(mark))
ON CONFLICT DO NOTHING;

-- name: StepImages :many
-- Those of a task's steps, or of one alone.
SELECT step_id, media_type, data, for_people, mark FROM step_images
WHERE org_id = @org_id AND task_id = @task_id AND (@step_id::text = '' OR step_id = @step_id::text) ORDER BY step_id, place;
