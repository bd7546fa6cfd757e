-- +goose Up

-- The labels that the join token gave the node: what it says of itself never
-- takes their place.
ALTER TABLE nodes ADD COLUMN pinned_labels jsonb NOT NULL DEFAULT '{}';

UPDATE nodes n SET pinned_labels = t.labels FROM (
    SELECT DISTINCT ON (node_id) node_id, labels FROM join_tokens WHERE node_id IS NOT NULL ORDER BY node_id, used_at DESC
) t WHERE t.node_id = n.id;

-- +goose Down
ALTER TABLE nodes DROP COLUMN pinned_labels;
