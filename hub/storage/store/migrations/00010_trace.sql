-- +goose Up
-- The W3C trace context of the call that made the task, for what comes of it
-- later and elsewhere; empty where nobody traces.
ALTER TABLE tasks ADD COLUMN traceparent text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE tasks DROP COLUMN traceparent;
