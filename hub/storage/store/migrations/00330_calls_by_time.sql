-- +goose Up
-- The graph of agents asks for the calls of the last minutes, charts for those of a month.
CREATE INDEX model_calls_by_time ON model_calls (org_id, started_at DESC);

-- +goose Down
DROP INDEX model_calls_by_time;
