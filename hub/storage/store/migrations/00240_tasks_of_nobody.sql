-- +goose Up

-- Reports whether somebody sees a task: its submitter, its assignee, its agent's
-- owner, and everybody while it has neither an agent nor an assignee. A task
-- without an agent has an empty agent_id, never NULL. An empty name sees nothing;
-- administrators, who see all tasks, do not come here.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION task_seen(submitter text, given_to text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR (coalesce(agent, '') = '' AND given_to = '')
        OR EXISTS (SELECT 1 FROM agents a WHERE a.id = agent AND a.owner = who))
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION task_seen(submitter text, given_to text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR (agent IS NULL AND given_to = '')
        OR EXISTS (SELECT 1 FROM agents a WHERE a.id = agent AND a.owner = who))
$$;
-- +goose StatementEnd
