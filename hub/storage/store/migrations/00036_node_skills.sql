-- +goose Up

-- The operator's own skills on a node, as it said last: an array of
-- deckhand.v1.NodeSkill as protojson.
ALTER TABLE nodes ADD COLUMN skills jsonb NOT NULL DEFAULT '[]';

-- +goose Down
ALTER TABLE nodes DROP COLUMN skills;
