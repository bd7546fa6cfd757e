-- +goose Up

-- The key between the hub and the keeper of a task's browser.
CREATE TABLE task_browsers (
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    key_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The state of a task's browser after a step that changed it, or to which a step went back. The
-- state at a checkpoint is that of the last step before it.
CREATE TABLE browser_sessions (
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks (id),
    number     int NOT NULL CHECK (number > 0),
    turn       int NOT NULL CHECK (turn > 0),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- Cookies, storages, addresses and scroll positions; empty once they are not kept any more.
    sealed     bytea NOT NULL,
    -- What people see of it: addresses without their parameters, and names.
    summary    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task_id, number)
);
CREATE INDEX browser_sessions_old ON browser_sessions (created_at);

-- +goose Down
DROP TABLE browser_sessions, task_browsers;
