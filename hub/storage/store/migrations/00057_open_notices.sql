-- +goose Up

-- Of each destination: what waits, and what was given up.
CREATE INDEX notices_open ON notices (org_id, destination_id, state) WHERE state <> 'delivered';

-- +goose Down
DROP INDEX notices_open;
