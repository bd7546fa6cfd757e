-- +goose Up

-- Browsers of tasks that a person has taken over. It lasts until_at, which the hub that has the
-- person's stream puts off.
CREATE TABLE browser_takeovers (
    task_id   text COLLATE "C" PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE,
    org_id    text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- Which of the person's streams.
    holder    text COLLATE "C" NOT NULL,
    user_id   text COLLATE "C" NOT NULL,
    user_name text NOT NULL,
    began_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    until_at  timestamptz NOT NULL
);

-- +goose Down
DROP TABLE browser_takeovers;
