-- +goose Up

-- What a task's end withdraws is on record, however the task ended.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdraw_inbox_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH withdrawn AS (
        UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp() WHERE task_id = NEW.id AND state = 'open'
        RETURNING *
    )
    INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason)
    SELECT org_id, 'hub', 'hub', 'inbox.withdrawn', 'inbox_item', id,
           jsonb_build_object('kind', kind, 'task_id', task_id, 'step_id', step_id, 'tool', tool, 'preview', preview),
           jsonb_build_object('state', state), 'its task has ended'
    FROM withdrawn;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION withdraw_inbox_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inbox_items SET state = 'withdrawn', answered_at = clock_timestamp() WHERE task_id = NEW.id AND state = 'open';
    RETURN NULL;
END
$$;
-- +goose StatementEnd
