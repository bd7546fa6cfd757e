-- +goose Up
-- Models that do not answer. A row says when the next of the tasks that wait for the model
-- tries it, and which one tries it now.
CREATE TABLE model_outages (
    org_id    text COLLATE "C" NOT NULL REFERENCES organisations (id),
    provider  text COLLATE "C" NOT NULL,
    model     text COLLATE "C" NOT NULL,
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Probes that failed in a row, with the failure that began it.
    failures  int NOT NULL DEFAULT 0,
    probe_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    prober    text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (org_id, provider, model)
);
-- The model that a task waits for, and since when it has had no answer of any.
ALTER TABLE tasks
    ADD COLUMN outage_provider text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN outage_model    text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN outage_since    timestamptz;
CREATE INDEX tasks_in_outage ON tasks (org_id, outage_provider, outage_model, outage_since) WHERE state = 'waiting' AND outage_since IS NOT NULL;

-- +goose Down
DROP INDEX tasks_in_outage;
ALTER TABLE tasks DROP COLUMN outage_provider, DROP COLUMN outage_model, DROP COLUMN outage_since;
DROP TABLE model_outages;
