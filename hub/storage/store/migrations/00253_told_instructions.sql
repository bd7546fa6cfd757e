-- +goose Up
CREATE INDEX steps_told ON steps (task_id) WHERE outcome ? 'instructions';

-- +goose Down
DROP INDEX steps_told;
