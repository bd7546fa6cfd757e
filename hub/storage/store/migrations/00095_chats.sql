-- +goose Up

-- Chats are few among many tasks, and people look for them by themselves. What
-- tells them apart is written when a task is made, and hardly ever again.
CREATE INDEX tasks_chats ON tasks (org_id, created_at DESC, id DESC) WHERE override ? 'chat';

-- +goose Down

DROP INDEX tasks_chats;
