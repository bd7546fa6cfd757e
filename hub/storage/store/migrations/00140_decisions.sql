-- +goose Up

-- What the hub decided about a call and read in it, as it is shown to the person
-- who decides: see package inbox.
ALTER TABLE inbox_items ADD COLUMN decision jsonb NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE inbox_items DROP COLUMN decision;
