-- +goose Up

-- Whether everybody who sees an agent sees its tasks, too.
ALTER TABLE organisations ADD COLUMN tasks_shared boolean NOT NULL DEFAULT false;

-- An agent belongs to a user or to a team. Its visibility says who else sees it: nobody
-- (private), who is in a team with its owner (team), or everybody (organisation).
ALTER TABLE agents
    ADD COLUMN owner_team text COLLATE "C" REFERENCES teams (id),
    ADD COLUMN visibility text NOT NULL DEFAULT 'organisation' CHECK (visibility IN ('private', 'team', 'organisation')),
    ADD CONSTRAINT agents_one_owner CHECK (owner = '' OR owner_team IS NULL);
CREATE INDEX agents_of_team ON agents (owner_team) WHERE owner_team IS NOT NULL;

-- The rule about who sees what is in the functions below, and nowhere else. Whoever asks
-- is named by their user name; an empty name sees nothing. Administrators, who see all of
-- their organisation, are not asked about here.

-- The names of those who own an agent: one user, or the members of a team.
-- +goose StatementBegin
CREATE FUNCTION agent_owners(agent text) RETURNS text[] STABLE LANGUAGE sql AS $$
    SELECT CASE WHEN a.owner_team IS NULL THEN ARRAY[a.owner]
        ELSE ARRAY(SELECT u.name FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = a.owner_team ORDER BY u.name) END
    FROM agents a WHERE a.id = agent
$$;
-- +goose StatementEnd

-- Reports whether somebody owns an agent.
-- +goose StatementBegin
CREATE FUNCTION agent_owned(agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND EXISTS (
        SELECT 1 FROM agents a WHERE a.id = agent AND (a.owner = who OR a.owner_team IS NOT NULL AND EXISTS (
            SELECT 1 FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = a.owner_team AND u.name = who)))
$$;
-- +goose StatementEnd

-- Reports whether somebody sees an agent.
-- +goose StatementBegin
CREATE FUNCTION agent_seen(agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND EXISTS (
        SELECT 1 FROM agents a WHERE a.id = agent AND (a.visibility = 'organisation' OR agent_owned(agent, who)
            OR a.visibility = 'team' AND EXISTS (
                SELECT 1 FROM users o JOIN team_members om ON om.user_id = o.id JOIN team_members mm ON mm.team_id = om.team_id
                JOIN users m ON m.id = mm.user_id
                WHERE o.org_id = a.org_id AND o.name = a.owner AND m.name = who)))
$$;
-- +goose StatementEnd

-- Reports whether somebody sees a task: its submitter, its assignee, the owners of its
-- agent, and everybody while it has neither an agent nor an assignee. In an organisation
-- that shares its tasks, also whoever sees its agent, and everybody if it has none.
DROP FUNCTION task_seen(text, text, text, text);
-- +goose StatementBegin
CREATE FUNCTION task_seen(org text, submitter text, given_to text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR (coalesce(agent, '') = '' AND given_to = '')
        OR agent_owned(agent, who)
        OR (coalesce(agent, '') = '' OR agent_seen(agent, who)) AND EXISTS (SELECT 1 FROM organisations g WHERE g.id = org AND g.tasks_shared))
$$;
-- +goose StatementEnd

-- Reports whether somebody sees an item of the inbox: of a task, whoever sees the task; of
-- no task, the agent's owners and whoever sees a task that waits for it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION inbox_seen(org text, what text, about text, task text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND CASE WHEN task <> ''
        THEN EXISTS (SELECT 1 FROM tasks t WHERE t.id = task AND task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, who))
        ELSE agent_owned(agent, who)
            OR EXISTS (SELECT 1 FROM stopped_tasks s JOIN tasks t ON t.id = s.task_id
                       WHERE s.org_id = org AND s.kind = what AND s.subject = about AND task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, who))
        END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION task_seen(text, text, text, text, text);
-- +goose StatementBegin
CREATE FUNCTION task_seen(submitter text, given_to text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR (coalesce(agent, '') = '' AND given_to = '')
        OR EXISTS (SELECT 1 FROM agents a WHERE a.id = agent AND a.owner = who))
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION inbox_seen(org text, what text, about text, task text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND CASE WHEN task <> ''
        THEN EXISTS (SELECT 1 FROM tasks t WHERE t.id = task AND task_seen(t.created_by, t.assignee, t.agent_id, who))
        ELSE EXISTS (SELECT 1 FROM agents a WHERE a.id = agent AND a.owner = who)
            OR EXISTS (SELECT 1 FROM stopped_tasks s JOIN tasks t ON t.id = s.task_id
                       WHERE s.org_id = org AND s.kind = what AND s.subject = about AND task_seen(t.created_by, t.assignee, t.agent_id, who))
        END
$$;
-- +goose StatementEnd
DROP FUNCTION agent_seen(text, text);
DROP FUNCTION agent_owned(text, text);
DROP FUNCTION agent_owners(text);
DROP INDEX agents_of_team;
ALTER TABLE agents DROP CONSTRAINT agents_one_owner, DROP COLUMN visibility, DROP COLUMN owner_team;
ALTER TABLE organisations DROP COLUMN tasks_shared;
