-- +goose Up

-- A restore puts the database back to an earlier time, while nodes remember what ran
-- since. epoch_floor is below every epoch that the hub gives from then on, and above
-- every one that it gave before: hubs on the lost database can command no node any more.
CREATE TABLE restores (
    id          text COLLATE "C" PRIMARY KEY,
    backup_id   text COLLATE "C" NOT NULL,
    taken_at    timestamptz NOT NULL,
    restored_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    epoch_floor bigint NOT NULL CHECK (epoch_floor > 0),
    CHECK (taken_at <= restored_at)
);

-- The nodes that the backup knew. Each is asked for its ledger when it connects.
CREATE TABLE restored_nodes (
    node_id     text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL,
    restore_id  text COLLATE "C" NOT NULL REFERENCES restores (id),
    compared_at timestamptz,
    -- Effects on its ledger that the backup did not have.
    recovered   int NOT NULL DEFAULT 0 CHECK (recovered >= 0),
    -- Why its ledger may not say everything; empty if it does.
    problem     text NOT NULL DEFAULT ''
);
CREATE INDEX restored_nodes_pending ON restored_nodes (org_id) WHERE compared_at IS NULL;

-- The tasks that had not ended in the backup. None starts before it has its verdict and a
-- person has looked at it (cleared_at).
CREATE TABLE restored_tasks (
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id     text COLLATE "C" NOT NULL,
    restore_id text COLLATE "C" NOT NULL REFERENCES restores (id),
    verdict    text NOT NULL DEFAULT 'pending' CHECK (verdict IN ('pending', 'recovered', 'uncertain')),
    reason     text NOT NULL DEFAULT '',
    cleared_at timestamptz,
    CHECK (verdict = 'pending' OR reason <> '')
);
CREATE INDEX restored_tasks_held ON restored_tasks (org_id) WHERE cleared_at IS NULL;

-- What nodes did that the backup does not know.
CREATE TABLE recovered_effects (
    node_id    text COLLATE "C" NOT NULL,
    -- The id under which it is on the node's ledger.
    effect_id  text COLLATE "C" NOT NULL,
    org_id     text COLLATE "C" NOT NULL,
    restore_id text COLLATE "C" NOT NULL REFERENCES restores (id),
    jail_id    text COLLATE "C" NOT NULL,
    -- The step that the backup has, which had not run then; empty for one that it has not.
    step_id    text COLLATE "C" NOT NULL DEFAULT '',
    task_id    text COLLATE "C" NOT NULL DEFAULT '',
    -- Masked, for people.
    what       text NOT NULL,
    outcome    text NOT NULL,
    began_at   timestamptz NOT NULL,
    PRIMARY KEY (node_id, effect_id)
);
CREATE INDEX recovered_effects_of_org ON recovered_effects (org_id, restore_id, began_at);

-- +goose Down
DROP TABLE recovered_effects, restored_tasks, restored_nodes, restores;
