-- +goose Up
-- What the devcontainer.json of a task's workspace said when its image was resolved; empty
-- for a persona that names its image itself.
ALTER TABLE tasks ADD COLUMN devcontainer jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(devcontainer) = 'object');

-- The commands of postCreateCommand that were started in a workspace, each once. digest is
-- that of all of them.
CREATE TABLE devcontainer_commands (
    org_id   text COLLATE "C" NOT NULL REFERENCES organisations (id),
    jail_id  text COLLATE "C" NOT NULL,
    digest   text NOT NULL,
    position int NOT NULL CHECK (position > 0),
    exec_id  text COLLATE "C" NOT NULL REFERENCES node_execs (id),
    PRIMARY KEY (org_id, jail_id, digest, position)
);

-- +goose Down
DROP TABLE devcontainer_commands;
ALTER TABLE tasks DROP COLUMN devcontainer;
