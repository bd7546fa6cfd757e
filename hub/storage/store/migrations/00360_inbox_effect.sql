-- +goose Up

-- What the call of an open approval would change that its arguments do not say: the changes
-- to files, or what was inspected. Calls are alike only if that is the same.
ALTER TABLE inbox_items DROP COLUMN alike;
ALTER TABLE inbox_items
    ADD COLUMN effect text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE
        WHEN kind = 'approval' AND (changes_digest <> '' OR binding ->> 'inspected' <> '') THEN md5(changes_digest || chr(10) || coalesce(binding ->> 'inspected', ''))
        ELSE '' END) STORED,
    ADD COLUMN alike text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE
        WHEN kind = 'approval' THEN md5(agent_id || chr(10) || tool || chr(10) || changes_digest || chr(10) || coalesce(binding ->> 'inspected', '') || chr(10) || CASE WHEN shape <> '' THEN shape ELSE arguments::text END)
        ELSE '' END) STORED;
CREATE INDEX inbox_items_alike ON inbox_items (org_id, alike) WHERE state = 'open' AND alike <> '';

-- +goose Down
ALTER TABLE inbox_items DROP COLUMN effect, DROP COLUMN alike;
ALTER TABLE inbox_items
    ADD COLUMN alike text COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE
        WHEN kind = 'approval' THEN md5(agent_id || chr(10) || tool || chr(10) || CASE WHEN shape <> '' THEN shape ELSE arguments::text END)
        ELSE '' END) STORED;
CREATE INDEX inbox_items_alike ON inbox_items (org_id, alike) WHERE state = 'open' AND alike <> '';
