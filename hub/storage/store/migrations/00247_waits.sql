-- +goose Up
-- What calls of the tool wait wait for without a worker: a time, and at most one of a job, a
-- port and a file. A row is deleted some time after its step has ended.
CREATE TABLE waits (
    step_id    text COLLATE "C" PRIMARY KEY REFERENCES steps (id),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks (id),
    node_id    text COLLATE "C" NOT NULL,
    jail_id    text COLLATE "C" NOT NULL,
    until      timestamptz NOT NULL,
    job_id     text COLLATE "C" NOT NULL DEFAULT '',
    port       bigint NOT NULL DEFAULT 0,
    path       text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX waits_of_task ON waits (task_id);

-- +goose Down
DROP TABLE waits;
