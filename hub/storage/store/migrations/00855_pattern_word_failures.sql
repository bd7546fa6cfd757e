-- +goose Up

-- How many calls of the model that words the pattern have failed in a row.
ALTER TABLE patterns ADD COLUMN word_failures int NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE patterns DROP COLUMN word_failures;
