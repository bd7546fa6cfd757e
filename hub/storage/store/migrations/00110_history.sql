-- +goose Up

-- How the last runs of an agent went, for estimates. An end is written once.
CREATE INDEX tasks_runs ON tasks (org_id, agent_id, finished_at DESC) WHERE finished_at IS NOT NULL;

-- +goose Down

DROP INDEX tasks_runs;
