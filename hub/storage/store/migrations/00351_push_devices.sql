-- +goose Up
-- A destination of kind push is a device of a user, which no other user sees.
ALTER TABLE destinations DROP CONSTRAINT destinations_kind_check;
ALTER TABLE destinations ADD CONSTRAINT destinations_kind_check CHECK (kind IN ('webhook', 'slack', 'email', 'nats', 'push'));
ALTER TABLE destinations ADD COLUMN user_id text COLLATE "C" REFERENCES users (id);
-- SHA-256 of the endpoint: the endpoint itself lets anybody send who knows it, and is
-- sealed.
ALTER TABLE destinations ADD COLUMN endpoint_hash bytea;
ALTER TABLE destinations ADD CONSTRAINT destinations_device CHECK ((kind = 'push') = (user_id IS NOT NULL AND endpoint_hash IS NOT NULL));
CREATE UNIQUE INDEX destinations_of_endpoint ON destinations (endpoint_hash) WHERE endpoint_hash IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX destinations_of_user ON destinations (org_id, user_id, created_at) WHERE user_id IS NOT NULL AND deleted_at IS NULL;

-- +goose Down
DELETE FROM notifications WHERE destination_id IN (SELECT id FROM destinations WHERE kind = 'push');
DELETE FROM destinations WHERE kind = 'push';
ALTER TABLE destinations DROP CONSTRAINT destinations_device;
ALTER TABLE destinations DROP COLUMN endpoint_hash, DROP COLUMN user_id;
ALTER TABLE destinations DROP CONSTRAINT destinations_kind_check;
ALTER TABLE destinations ADD CONSTRAINT destinations_kind_check CHECK (kind IN ('webhook', 'slack', 'email', 'nats'));
