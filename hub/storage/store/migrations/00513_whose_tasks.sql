-- +goose Up

-- Whose a task is, other than who sees it: where an organisation shares its tasks, many
-- see them, and only these change what belongs to one.

-- Reports whether a task is somebody's: its submitter's, its assignee's, or that of an
-- owner of its agent.
-- +goose StatementBegin
CREATE FUNCTION task_owned(submitter text, given_to text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR agent_owned(agent, who))
$$;
-- +goose StatementEnd

-- Reports whether an item of the inbox is somebody's: of a task, whose the task is; of no
-- task, the agent's owners' and those whose task waits for it.
-- +goose StatementBegin
CREATE FUNCTION inbox_owned(org text, what text, about text, task text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND CASE WHEN task <> ''
        THEN EXISTS (SELECT 1 FROM tasks t WHERE t.id = task AND task_owned(t.created_by, t.assignee, t.agent_id, who))
        ELSE agent_owned(agent, who)
            OR EXISTS (SELECT 1 FROM stopped_tasks s JOIN tasks t ON t.id = s.task_id
                       WHERE s.org_id = org AND s.kind = what AND s.subject = about AND task_owned(t.created_by, t.assignee, t.agent_id, who))
        END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION inbox_owned(text, text, text, text, text, text);
DROP FUNCTION task_owned(text, text, text, text);
