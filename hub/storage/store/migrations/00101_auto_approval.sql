-- +goose Up

-- E8: how the arguments of calls look that people approve.
ALTER TABLE inbox_items ADD COLUMN shape text NOT NULL DEFAULT '',
    -- How many calls of the shape were approved when its answer was offered to be
    -- given to all of them; 0 where it was not.
    ADD COLUMN offered int NOT NULL DEFAULT 0;
CREATE INDEX inbox_items_of_shape ON inbox_items (org_id, agent_id, tool, shape, answered_at) WHERE shape <> '';

-- What was offered once is never offered again.
CREATE TABLE auto_offers (
    org_id     text COLLATE "C" NOT NULL,
    agent_id   text COLLATE "C" NOT NULL,
    tool       text NOT NULL,
    shape      text NOT NULL,
    item_id    text COLLATE "C" NOT NULL,
    offered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, agent_id, tool, shape)
);

ALTER TABLE allow_rules ADD COLUMN shape text NOT NULL DEFAULT '',
    DROP CONSTRAINT allow_rules_scope_check,
    ADD CONSTRAINT allow_rules_scope_check CHECK (scope IN ('exact', 'commands', 'shape', 'tool')),
    ADD CHECK ((scope = 'shape') = (shape <> ''));

-- F12: calls that a limit counts. Where no policy has a limit there are none.
CREATE TABLE limited_calls (
    org_id      text COLLATE "C" NOT NULL,
    tool        text NOT NULL,
    category    text NOT NULL,
    step_id     text COLLATE "C" NOT NULL PRIMARY KEY,
    proposed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX limited_calls_by_time ON limited_calls (org_id, proposed_at);
DROP INDEX steps_by_time;

-- +goose Down
CREATE INDEX steps_by_time ON steps (org_id, proposed_at);
DROP TABLE limited_calls;
DELETE FROM allow_rules WHERE scope = 'shape';
ALTER TABLE allow_rules DROP COLUMN shape, DROP CONSTRAINT allow_rules_scope_check,
    ADD CONSTRAINT allow_rules_scope_check CHECK (scope IN ('exact', 'commands', 'tool'));
DROP TABLE auto_offers;
DROP INDEX inbox_items_of_shape;
ALTER TABLE inbox_items DROP COLUMN shape, DROP COLUMN offered;
