-- +goose Up

-- Deliveries are taken in turns of the organisations that have any.
CREATE INDEX deliveries_due_of_org ON deliveries (org_id, due_at, received_at) WHERE state = 'accepted';
DROP INDEX deliveries_due;

-- +goose Down
CREATE INDEX deliveries_due ON deliveries (due_at, received_at) WHERE state = 'accepted';
DROP INDEX deliveries_due_of_org;
