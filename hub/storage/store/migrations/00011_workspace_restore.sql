-- +goose Up

-- The state that a step left its workspace in, as the node numbers it, and the
-- record that the number is of. A checkpoint's workspace is that of the last
-- step before it.
ALTER TABLE steps
    ADD COLUMN workspace_state bigint,
    ADD COLUMN workspace_record text NOT NULL DEFAULT '';

-- An undo takes back steps, or all since a state: the workspace of a checkpoint
-- is given back before the task that goes on from it begins.
ALTER TABLE undos
    ADD COLUMN to_state bigint,
    ADD COLUMN to_record text NOT NULL DEFAULT '',
    DROP CONSTRAINT undos_step_ids_check,
    DROP CONSTRAINT undos_change_ids_check,
    ADD CONSTRAINT undos_names_changes CHECK (to_state IS NOT NULL OR (cardinality(step_ids) > 0 AND cardinality(change_ids) > 0));

-- +goose Down
ALTER TABLE undos DROP CONSTRAINT undos_names_changes, DROP COLUMN to_record, DROP COLUMN to_state;
ALTER TABLE undos ADD CHECK (cardinality(step_ids) > 0), ADD CHECK (cardinality(change_ids) > 0);
ALTER TABLE steps DROP COLUMN workspace_record, DROP COLUMN workspace_state;
