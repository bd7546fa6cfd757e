-- +goose Up

-- When a task began a call whose result may have text that anybody may have written; NULL if it
-- made none. It is never taken back.
ALTER TABLE tasks ADD COLUMN untrusted_at timestamptz;

-- Reports whether a task has read such text, or any of its lineage has: the tasks above and
-- below it, those that handed work off to it, and those that it retries or is resumed from. What
-- they read reaches it as a goal, a summary, a transcript or a file. A task that a trigger
-- started has read what the trigger delivered.
-- +goose StatementBegin
CREATE FUNCTION task_untrusted(of_org text, of_task text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT coalesce((SELECT
        EXISTS (SELECT 1 FROM tasks f WHERE f.id = t.lineage_id AND f.org_id = of_org AND (f.untrusted_at IS NOT NULL OR f.trigger_id NOT IN ('manual', '')))
        OR EXISTS (SELECT 1 FROM tasks f WHERE f.org_id = of_org AND f.lineage_id = t.lineage_id AND f.lineage_id <> f.id
                       AND (f.untrusted_at IS NOT NULL OR f.trigger_id NOT IN ('manual', '')))
        FROM tasks t WHERE t.id = of_task AND t.org_id = of_org), true)
$$;
-- +goose StatementEnd

-- What a team remembered goes with it.
-- +goose StatementBegin
CREATE FUNCTION delete_memories_of_scope() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memories WHERE org_id = OLD.org_id AND scope_kind = TG_ARGV[0] AND scope_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER memories_of_team AFTER DELETE ON teams FOR EACH ROW EXECUTE FUNCTION delete_memories_of_scope('team');

-- +goose Down
DROP TRIGGER memories_of_team ON teams;
DROP FUNCTION delete_memories_of_scope();
DROP FUNCTION task_untrusted(text, text);
ALTER TABLE tasks DROP COLUMN untrusted_at;
