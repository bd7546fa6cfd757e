-- +goose Up

-- Whether somebody sees a task: who submitted it, whom it is given to, whose
-- agent does it, and everybody what is given to nobody yet. Nobody, an empty name,
-- sees nothing; whoever sees all is not asked about here.
-- +goose StatementBegin
CREATE FUNCTION task_seen(submitter text, given_to text, agent text, who text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (submitter = who OR given_to = who OR (agent IS NULL AND given_to = '')
        OR EXISTS (SELECT 1 FROM agents a WHERE a.id = agent AND a.owner = who))
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION task_seen(text, text, text, text);
