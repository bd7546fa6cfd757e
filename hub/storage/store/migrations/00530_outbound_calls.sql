-- +goose Up
-- What agents send to destinations with their tools: one row for each run of a step, stored
-- before anything is sent, so that nothing is sent twice. The row of a hub that died while
-- sending stays in 'sending': whether the receiver has it is not known.
CREATE TABLE outbound_calls (
    org_id         text COLLATE "C" NOT NULL REFERENCES organisations (id),
    exec_id        text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL REFERENCES destinations (id),
    step_id        text COLLATE "C" NOT NULL,
    state          text NOT NULL DEFAULT 'sending' CHECK (state IN ('sending', 'sent', 'refused', 'unknown')),
    -- The receiver's response: its status, and the beginning of what it said.
    status         integer NOT NULL DEFAULT 0,
    said           text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, exec_id, destination_id)
);
CREATE INDEX outbound_calls_by_destination ON outbound_calls (destination_id, created_at);
CREATE INDEX outbound_calls_by_age ON outbound_calls (created_at);

-- +goose Down
DROP TABLE outbound_calls;
