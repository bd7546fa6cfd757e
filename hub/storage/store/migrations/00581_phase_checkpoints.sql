-- +goose Up

-- A checkpoint is the end of an iteration (phase iterate), or the moment after it when the next
-- turn is chosen and none of its calls has been made (phase select_tool). The latter has no state
-- of its own: it is that of the iteration, with one more turn.
ALTER TABLE checkpoints
    ADD COLUMN id    text COLLATE "C",
    ADD COLUMN phase text NOT NULL DEFAULT 'iterate' CHECK (phase IN ('select_tool', 'iterate'));
UPDATE checkpoints SET id = 'checkpoint_' || md5(task_id || ' ' || iteration);
ALTER TABLE checkpoints
    ALTER COLUMN id SET NOT NULL,
    DROP CONSTRAINT checkpoints_pkey,
    ADD PRIMARY KEY (task_id, iteration, phase);
CREATE UNIQUE INDEX checkpoints_id ON checkpoints (id);

-- How long checkpoints are kept, in seconds; NULL for a day.
ALTER TABLE organisations
    ADD COLUMN checkpoint_seconds bigint CHECK (checkpoint_seconds BETWEEN 86400 AND 604800);

-- The task goes on with the turn after resumed_at, too, and makes its calls.
ALTER TABLE tasks ADD COLUMN resumed_turn boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE tasks DROP COLUMN resumed_turn;
ALTER TABLE organisations DROP COLUMN checkpoint_seconds;
DROP INDEX checkpoints_id;
DELETE FROM checkpoints WHERE phase <> 'iterate';
ALTER TABLE checkpoints DROP CONSTRAINT checkpoints_pkey, DROP COLUMN phase, DROP COLUMN id, ADD PRIMARY KEY (task_id, iteration);
