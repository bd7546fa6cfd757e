-- +goose Up
-- What was estimated of a call's prompt before it was counted: the next call's estimate is
-- corrected by the difference.
ALTER TABLE model_calls ADD COLUMN estimated_tokens bigint NOT NULL DEFAULT 0;
-- What counts for the limit of tokens: those read from the cache at their share of the price.
ALTER TABLE model_calls ADD COLUMN limit_tokens bigint NOT NULL DEFAULT 0;
UPDATE model_calls SET limit_tokens = input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
ALTER TABLE model_calls DROP CONSTRAINT model_calls_basis_check;
UPDATE model_calls SET basis = 'estimated' WHERE basis = 'bounded';
ALTER TABLE model_calls ADD CONSTRAINT model_calls_basis_check CHECK (basis IN ('reserved', 'reported', 'estimated', 'unsent', 'lost'));
CREATE INDEX model_calls_of_task ON model_calls (task_id, started_at DESC) WHERE basis = 'reported';

-- +goose Down
DROP INDEX model_calls_of_task;
ALTER TABLE model_calls DROP CONSTRAINT model_calls_basis_check;
UPDATE model_calls SET basis = 'bounded' WHERE basis = 'estimated';
ALTER TABLE model_calls ADD CONSTRAINT model_calls_basis_check CHECK (basis IN ('reserved', 'reported', 'bounded', 'unsent', 'lost'));
ALTER TABLE model_calls DROP COLUMN estimated_tokens, DROP COLUMN limit_tokens;
