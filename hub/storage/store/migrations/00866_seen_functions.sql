-- +goose Up

-- The rule about who sees what, as before, in the language whose plans are kept for the
-- connection: those of the other one are made for each row. What needs no table comes first.
-- COST keeps the planner from asking for each task there is.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION agent_owned(agent text, who text) RETURNS boolean STABLE COST 2000 LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(agent, '') = '' OR coalesce(who, '') = '' THEN
        RETURN false;
    END IF;
    RETURN EXISTS (
        SELECT 1 FROM agents a WHERE a.id = agent AND (a.owner = who OR a.owner_team IS NOT NULL AND EXISTS (
            SELECT 1 FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = a.owner_team AND u.name = who)));
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION agent_seen(agent text, who text) RETURNS boolean STABLE COST 2000 LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(agent, '') = '' OR coalesce(who, '') = '' THEN
        RETURN false;
    END IF;
    RETURN EXISTS (
        SELECT 1 FROM agents a WHERE a.id = agent AND (a.visibility = 'organisation' OR agent_owned(agent, who)
            OR a.visibility = 'team' AND EXISTS (
                SELECT 1 FROM users o JOIN team_members om ON om.user_id = o.id JOIN team_members mm ON mm.team_id = om.team_id
                JOIN users m ON m.id = mm.user_id
                WHERE o.org_id = a.org_id AND o.name = a.owner AND m.name = who)));
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION task_seen(org text, submitter text, given_to text, agent text, who text) RETURNS boolean STABLE COST 5000 LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(who, '') = '' THEN
        RETURN false;
    END IF;
    IF submitter = who OR given_to = who OR coalesce(agent, '') = '' AND given_to = '' THEN
        RETURN true;
    END IF;
    RETURN agent_owned(agent, who)
        OR EXISTS (SELECT 1 FROM organisations g WHERE g.id = org AND g.tasks_shared) AND (coalesce(agent, '') = '' OR agent_seen(agent, who));
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION task_seen(org text, submitter text, given_to text, agent text, who text) RETURNS boolean STABLE COST 100 LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR (coalesce(agent, '') = '' AND given_to = '')
        OR agent_owned(agent, who)
        OR (coalesce(agent, '') = '' OR agent_seen(agent, who)) AND EXISTS (SELECT 1 FROM organisations g WHERE g.id = org AND g.tasks_shared))
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION agent_seen(agent text, who text) RETURNS boolean STABLE COST 100 LANGUAGE sql AS $$
    SELECT who <> '' AND EXISTS (
        SELECT 1 FROM agents a WHERE a.id = agent AND (a.visibility = 'organisation' OR agent_owned(agent, who)
            OR a.visibility = 'team' AND EXISTS (
                SELECT 1 FROM users o JOIN team_members om ON om.user_id = o.id JOIN team_members mm ON mm.team_id = om.team_id
                JOIN users m ON m.id = mm.user_id
                WHERE o.org_id = a.org_id AND o.name = a.owner AND m.name = who)))
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION agent_owned(agent text, who text) RETURNS boolean STABLE COST 100 LANGUAGE sql AS $$
    SELECT who <> '' AND EXISTS (
        SELECT 1 FROM agents a WHERE a.id = agent AND (a.owner = who OR a.owner_team IS NOT NULL AND EXISTS (
            SELECT 1 FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = a.owner_team AND u.name = who)))
$$;
-- +goose StatementEnd
