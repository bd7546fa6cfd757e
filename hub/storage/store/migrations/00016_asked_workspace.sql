-- +goose Up

-- The state that a step's workspace was in when its task began to wait for a
-- person, and the record that the number is of: a grant holds for that state.
ALTER TABLE steps
    ADD COLUMN asked_state bigint,
    ADD COLUMN asked_record text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE steps DROP COLUMN asked_record, DROP COLUMN asked_state;
