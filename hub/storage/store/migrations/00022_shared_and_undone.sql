-- +goose Up

-- The target of a transfer may read the files and not change them.
ALTER TABLE artifact_transfers ADD COLUMN shared boolean NOT NULL DEFAULT false;

-- People's commands change workspaces too, and their changes can be taken back:
-- how many paths one changed, and by which undo they were given back.
ALTER TABLE node_execs
    ADD COLUMN files int NOT NULL DEFAULT 0 CHECK (files >= 0),
    ADD COLUMN undone_at timestamptz,
    ADD COLUMN undo_id text,
    ADD CHECK ((undone_at IS NULL) = (undo_id IS NULL));

-- An undo is of a task, or of a person's command.
ALTER TABLE undos
    ALTER COLUMN task_id DROP NOT NULL,
    ADD COLUMN exec_id text REFERENCES node_execs (id),
    DROP CONSTRAINT undos_names_changes,
    ADD CONSTRAINT undos_names_changes CHECK (
        CASE WHEN exec_id IS NOT NULL THEN task_id IS NULL AND to_state IS NULL AND cardinality(change_ids) > 0
             ELSE task_id IS NOT NULL AND (to_state IS NOT NULL OR cardinality(step_ids) > 0 AND cardinality(change_ids) > 0) END);
CREATE INDEX undos_pending_exec ON undos (exec_id) WHERE state = 'pending' AND exec_id IS NOT NULL;

-- +goose Down
DELETE FROM undos WHERE exec_id IS NOT NULL;
ALTER TABLE undos DROP CONSTRAINT undos_names_changes, DROP COLUMN exec_id, ALTER COLUMN task_id SET NOT NULL;
ALTER TABLE undos
    ADD CONSTRAINT undos_names_changes CHECK (to_state IS NOT NULL OR (cardinality(step_ids) > 0 AND cardinality(change_ids) > 0));
ALTER TABLE node_execs DROP COLUMN undo_id, DROP COLUMN undone_at, DROP COLUMN files;
ALTER TABLE artifact_transfers DROP COLUMN shared;
