-- +goose Up

-- What organisations may have, where that is not everything.
CREATE TABLE plans (
    org_id text COLLATE "C" PRIMARY KEY,
    name   text NOT NULL,
    -- In the place of the plan's own.
    runs   bigint CHECK (runs > 0),
    set_by text COLLATE "C" NOT NULL,
    set_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How many runs began in a month, and how many were left of the one before.
CREATE TABLE plan_periods (
    org_id  text COLLATE "C" NOT NULL,
    period  text NOT NULL,
    runs    bigint NOT NULL DEFAULT 0,
    carried bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, period)
);

-- The month that a task was counted in; empty until it starts.
ALTER TABLE tasks ADD COLUMN counted_in text NOT NULL DEFAULT '';

-- Models that may be called; none for all.
CREATE TABLE allowed_models (
    org_id  text COLLATE "C" NOT NULL,
    pattern text NOT NULL,
    PRIMARY KEY (org_id, pattern)
);

-- How many calls a minute a provider gets, and when the next one's turn is.
CREATE TABLE call_rates (
    org_id           text COLLATE "C" NOT NULL,
    provider         text NOT NULL,
    calls_per_minute int NOT NULL CHECK (calls_per_minute > 0),
    next_at          timestamptz NOT NULL DEFAULT to_timestamp(0),
    PRIMARY KEY (org_id, provider)
);

-- +goose Down
DROP TABLE call_rates;
DROP TABLE allowed_models;
ALTER TABLE tasks DROP COLUMN counted_in;
DROP TABLE plan_periods;
DROP TABLE plans;
