-- +goose Up

-- The same functions as before, in the language whose plans are kept for the connection: those of
-- the other one are made for each row, which took 1.7 ms for each entry of a memory.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION scope_seen(of_org text, of_kind text, of_id text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN who <> '' AND CASE of_kind
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
        ELSE false END;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION scope_writable(of_org text, of_kind text, of_id text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN scope_seen(of_org, of_kind, of_id, who, administrator) AND CASE of_kind
        WHEN 'organisation' THEN administrator
        WHEN 'agent' THEN administrator OR agent_owned(of_id, who)
        WHEN 'workspace' THEN administrator OR agent_owned('agent_' || substr(of_id, length('jail_') + 1), who)
            OR EXISTS (SELECT 1 FROM tasks t WHERE t.jail_id = of_id AND t.org_id = of_org AND t.workspace_scope = 'task'
                           AND task_owned(t.created_by, t.assignee, t.agent_id, who))
        ELSE true END;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory_seen(of_org text, of_kind text, of_id text, only_user text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN scope_seen(of_org, of_kind, of_id, who, administrator)
        AND (only_user = '' OR EXISTS (SELECT 1 FROM users u WHERE u.org_id = of_org AND u.id = only_user AND u.name = who));
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory_writable(of_org text, of_kind text, of_id text, only_user text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN memory_seen(of_org, of_kind, of_id, only_user, who, administrator)
        AND (only_user <> '' OR scope_writable(of_org, of_kind, of_id, who, administrator));
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION scope_seen(of_org text, of_kind text, of_id text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION scope_writable(of_org text, of_kind text, of_id text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT scope_seen(of_org, of_kind, of_id, who, administrator) AND CASE of_kind
        WHEN 'organisation' THEN administrator
        WHEN 'agent' THEN administrator OR agent_owned(of_id, who)
        WHEN 'workspace' THEN administrator OR agent_owned('agent_' || substr(of_id, length('jail_') + 1), who)
            OR EXISTS (SELECT 1 FROM tasks t WHERE t.jail_id = of_id AND t.org_id = of_org AND t.workspace_scope = 'task'
                           AND task_owned(t.created_by, t.assignee, t.agent_id, who))
        ELSE true END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory_seen(of_org text, of_kind text, of_id text, only_user text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT scope_seen(of_org, of_kind, of_id, who, administrator)
        AND (only_user = '' OR EXISTS (SELECT 1 FROM users u WHERE u.org_id = of_org AND u.id = only_user AND u.name = who))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION memory_writable(of_org text, of_kind text, of_id text, only_user text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT memory_seen(of_org, of_kind, of_id, only_user, who, administrator)
        AND (only_user <> '' OR scope_writable(of_org, of_kind, of_id, who, administrator))
$$;
-- +goose StatementEnd
