-- +goose Up
-- An open item that a user does not want to see before a time. The item is as open as
-- before, and everybody else sees it.
CREATE TABLE inbox_snoozes (
    item_id text COLLATE "C" NOT NULL REFERENCES inbox_items (id) ON DELETE CASCADE,
    user_id text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    org_id  text COLLATE "C" NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (item_id, user_id)
);
CREATE INDEX inbox_snoozes_of_user ON inbox_snoozes (org_id, user_id, until);

-- +goose Down
DROP TABLE inbox_snoozes;
