-- +goose Up

-- A deleted agent keeps its row, for its history, and its name for as long as the deletion
-- can be undone. Then its name is free: released.
ALTER TABLE agents
    ADD COLUMN deleted_at timestamptz,
    ADD COLUMN deleted_by text NOT NULL DEFAULT '',
    ADD COLUMN released boolean NOT NULL DEFAULT false CHECK (NOT released OR deleted_at IS NOT NULL),
    DROP CONSTRAINT agents_org_id_name_key;
CREATE UNIQUE INDEX agents_name ON agents (org_id, name) WHERE NOT released;

-- Names that agents had before. They lead to the agent until it is deleted for good or
-- another agent of the same owner is given the name.
CREATE TABLE agent_former_names (
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    name       text COLLATE "C" NOT NULL,
    agent_id   text COLLATE "C" NOT NULL REFERENCES agents (id),
    renamed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, name)
);
CREATE INDEX agent_former_names_agent ON agent_former_names (agent_id);

-- +goose Down
DROP TABLE agent_former_names;
DROP INDEX agents_name;
UPDATE agents SET name = name || '-' || right(id, 8) WHERE released;
ALTER TABLE agents DROP COLUMN deleted_at, DROP COLUMN deleted_by, DROP COLUMN released, ADD CONSTRAINT agents_org_id_name_key UNIQUE (org_id, name);
