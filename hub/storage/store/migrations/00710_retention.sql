-- +goose Up

-- How long an organisation keeps what tasks leave, by kind. Without a row the hub's
-- default counts.
CREATE TABLE retention_rules (
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('events', 'turns', 'steps', 'inputs', 'inbox', 'model_calls', 'artifacts')),
    -- After the end of a task; 0 for ever.
    days       int NOT NULL CHECK (days BETWEEN 0 AND 36500),
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, kind)
);

-- How far the collection of each kind has come: tasks are collected in the order in which
-- they ended.
CREATE TABLE retention_progress (
    org_id      text COLLATE "C" NOT NULL REFERENCES organisations (id),
    kind        text COLLATE "C" NOT NULL,
    after_time  timestamptz NOT NULL DEFAULT to_timestamp(0),
    after_id    text COLLATE "C" NOT NULL DEFAULT '',
    deleted     bigint NOT NULL DEFAULT 0,
    deleted_at  timestamptz,
    PRIMARY KEY (org_id, kind)
);

-- Tasks of which everything is kept.
CREATE TABLE legal_holds (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id  text COLLATE "C" NOT NULL REFERENCES organisations (id),
    reason  text NOT NULL CHECK (reason <> ''),
    set_by  text NOT NULL,
    set_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX legal_holds_newest ON legal_holds (org_id, set_at DESC, task_id DESC);

-- +goose Down
DROP TABLE legal_holds, retention_progress, retention_rules;
