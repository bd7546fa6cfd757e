-- name: ScopeAccess :one
-- Whether somebody reads, and whether they write, what is in a scope.
SELECT scope_seen(@org_id::text, @kind::text, @id::text, @viewer::text, @administrator::boolean)::boolean AS seen,
       scope_writable(@org_id::text, @kind::text, @id::text, @viewer::text, @administrator::boolean)::boolean AS writable;

-- name: ScopesOfRun :many
-- The scopes whose content concerns a run for somebody, the widest first: their
-- organisation's, their teams', their own, and the agent's and the workspace's if they see those.
SELECT s.kind::text AS kind, s.id::text AS id FROM (
    SELECT 1 AS place, 'organisation' AS kind, @org_id::text AS id
    UNION ALL SELECT 2, 'team', m.team_id FROM users u JOIN team_members m ON m.user_id = u.id WHERE u.org_id = @org_id::text AND u.name = @viewer::text
    UNION ALL SELECT 3, 'user', u.id FROM users u WHERE u.org_id = @org_id::text AND u.name = @viewer::text
    UNION ALL SELECT 4, 'agent', @agent_id::text
    UNION ALL SELECT 5, 'workspace', @workspace_id::text) s
WHERE s.id <> '' AND scope_seen(@org_id::text, s.kind, s.id, @viewer::text, @administrator::boolean)
ORDER BY s.place, s.id;
