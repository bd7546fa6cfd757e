-- +goose NO TRANSACTION
-- model_calls is among the largest tables, and hubs that still serve write to it: they must
-- not wait for the index. An attempt that was interrupted leaves an invalid one.

-- +goose Up
-- The graph of agents asks for the calls of the last minutes, charts for those of a month.
DROP INDEX CONCURRENTLY IF EXISTS model_calls_by_time;
CREATE INDEX CONCURRENTLY model_calls_by_time ON model_calls (org_id, started_at DESC);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS model_calls_by_time;
