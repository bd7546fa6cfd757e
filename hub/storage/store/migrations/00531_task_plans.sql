-- +goose Up
-- The plan of a task, as its agent or a person set it last.
CREATE TABLE task_plans (
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    -- Counts the changes, from 1.
    revision   integer NOT NULL CHECK (revision > 0),
    items      jsonb NOT NULL,
    criteria   jsonb NOT NULL DEFAULT '[]',
    risks      jsonb NOT NULL DEFAULT '[]',
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What people changed since the agent set it, which the agent must have been told before
    -- it sets it again; empty for nothing. It is told with message_id, or in the result of the
    -- call that was refused for it, in turn told_turn.
    changes    text NOT NULL DEFAULT '',
    message_id text COLLATE "C" REFERENCES task_messages (id),
    told_turn  integer
);

-- +goose Down
DROP TABLE task_plans;
