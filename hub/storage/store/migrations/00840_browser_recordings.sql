-- +goose Up

-- Recordings of tasks' browsers: each is the output of the command that kept the browser, which its
-- node has.
CREATE TABLE browser_recordings (
    task_id  text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    exec_id  text COLLATE "C" NOT NULL,
    org_id   text COLLATE "C" NOT NULL REFERENCES organisations (id),
    node_id  text COLLATE "C" NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task_id, exec_id)
);

-- +goose Down
DROP TABLE browser_recordings;
