-- +goose Up

-- The model that words patterns, which rules have drawn; empty for none.
ALTER TABLE pattern_settings ADD COLUMN provider text NOT NULL DEFAULT '', ADD COLUMN model text NOT NULL DEFAULT '',
    ADD CHECK ((provider = '') = (model = ''));

-- The version that a model was asked to word last, and when the next one may be asked about it.
ALTER TABLE patterns ADD COLUMN worded int NOT NULL DEFAULT 0, ADD COLUMN word_at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX patterns_to_word ON patterns (org_id, word_at) WHERE worded < version AND enabled AND NOT edited AND deleted_at IS NULL;

ALTER TABLE pattern_versions DROP CONSTRAINT pattern_versions_change_check;
ALTER TABLE pattern_versions ADD CONSTRAINT pattern_versions_change_check CHECK (change IN ('drawn', 'merged', 'edited', 'corrected', 'worded'));

-- +goose Down
DELETE FROM pattern_versions WHERE change = 'worded';
ALTER TABLE pattern_versions DROP CONSTRAINT pattern_versions_change_check;
ALTER TABLE pattern_versions ADD CONSTRAINT pattern_versions_change_check CHECK (change IN ('drawn', 'merged', 'edited', 'corrected'));
DROP INDEX patterns_to_word;
ALTER TABLE patterns DROP COLUMN worded, DROP COLUMN word_at;
ALTER TABLE pattern_settings DROP COLUMN provider, DROP COLUMN model;
