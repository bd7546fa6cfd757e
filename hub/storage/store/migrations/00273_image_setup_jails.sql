-- +goose Up

-- When the jail of a setup was removed from its node, with the logs of its commands.
ALTER TABLE image_setups ADD COLUMN removed_at timestamptz CHECK (removed_at IS NULL OR cleared_at IS NOT NULL);
CREATE INDEX image_setups_jails ON image_setups (cleared_at) WHERE removed_at IS NULL;

-- +goose Down
DROP INDEX image_setups_jails;
ALTER TABLE image_setups DROP COLUMN removed_at;
