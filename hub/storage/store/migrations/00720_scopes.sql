-- +goose Up

-- What was learned (memories, documents, patterns) has a scope: an organisation, a team, a
-- user, an agent or a workspace. Who reads and who writes in a scope is in the two functions
-- below, and nowhere else. Whoever asks is named by their user name; an empty name sees
-- nothing. Administrators see their organisation's scopes, but not those of its users.

-- Reports whether somebody reads what is in a scope.
-- +goose StatementBegin
CREATE FUNCTION scope_seen(of_org text, of_kind text, of_id text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND CASE of_kind
        WHEN 'organisation' THEN of_id = of_org AND EXISTS (SELECT 1 FROM users u WHERE u.org_id = of_org AND u.name = who)
        WHEN 'team' THEN EXISTS (
            SELECT 1 FROM teams t WHERE t.id = of_id AND t.org_id = of_org AND (administrator OR EXISTS (
                SELECT 1 FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = t.id AND u.org_id = of_org AND u.name = who)))
        WHEN 'user' THEN EXISTS (SELECT 1 FROM users u WHERE u.id = of_id AND u.org_id = of_org AND u.name = who)
        WHEN 'agent' THEN EXISTS (SELECT 1 FROM agents a WHERE a.id = of_id AND a.org_id = of_org AND (administrator OR agent_seen(a.id, who)))
        WHEN 'workspace' THEN EXISTS (
                SELECT 1 FROM agents a WHERE a.id = 'agent_' || substr(of_id, length('jail_') + 1) AND starts_with(of_id, 'jail_')
                    AND a.org_id = of_org AND (administrator OR agent_seen(a.id, who)))
            OR EXISTS (
                SELECT 1 FROM tasks t WHERE t.jail_id = of_id AND t.org_id = of_org AND t.workspace_scope = 'task'
                    AND (administrator OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, who)))
        ELSE false END
$$;
-- +goose StatementEnd

-- Reports whether somebody writes in a scope.
-- +goose StatementBegin
CREATE FUNCTION scope_writable(of_org text, of_kind text, of_id text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT scope_seen(of_org, of_kind, of_id, who, administrator) AND CASE of_kind
        WHEN 'organisation' THEN administrator
        WHEN 'agent' THEN administrator OR agent_owned(of_id, who)
        WHEN 'workspace' THEN administrator OR agent_owned('agent_' || substr(of_id, length('jail_') + 1), who)
            OR EXISTS (SELECT 1 FROM tasks t WHERE t.jail_id = of_id AND t.org_id = of_org AND t.workspace_scope = 'task'
                           AND task_owned(t.created_by, t.assignee, t.agent_id, who))
        ELSE true END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION scope_writable(text, text, text, text, boolean);
DROP FUNCTION scope_seen(text, text, text, text, boolean);
