-- +goose Up

-- Where each task's history stands: apart from the task, whose row is wide and
-- has many indexes, since every transaction adds to the history. xid is the
-- highest that an event of the task has (see events.xid).
CREATE TABLE event_heads (
    task_id text COLLATE "C" PRIMARY KEY,
    org_id  text NOT NULL,
    seq     bigint NOT NULL CHECK (seq > 0),
    xid     xid8 NOT NULL
) WITH (fillfactor = 50);
INSERT INTO event_heads (task_id, org_id, seq, xid) SELECT id, org_id, event_seq, event_xid FROM tasks WHERE event_seq > 0;
ALTER TABLE tasks DROP COLUMN event_seq, DROP COLUMN event_xid;

-- An event is named by its task and number. Its id, which only orders events of
-- one transaction, comes of the sequence.
ALTER TABLE events DROP CONSTRAINT events_pkey, DROP CONSTRAINT events_task_id_seq_key, ADD PRIMARY KEY (task_id, seq);

-- A task that is moved gets a new entry in every index whose condition it
-- meets: few indexes, and none twice. admitted_at stands from the admission
-- until the slot is free again.
DROP INDEX tasks_active, tasks_leased, tasks_due, tasks_pace;
CREATE INDEX tasks_active ON tasks (org_id, agent_id) WHERE admitted_at IS NOT NULL;
CREATE INDEX tasks_due ON tasks (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX tasks_pace ON tasks (org_id, finished_at DESC) WHERE finished_at IS NOT NULL;
ALTER TABLE tasks DROP CONSTRAINT tasks_org_id_idempotency_key_key;
CREATE UNIQUE INDEX tasks_idempotency ON tasks (org_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- A step's states change within its page.
DROP INDEX steps_execs;
ALTER TABLE steps SET (fillfactor = 60);
ALTER TABLE attempts SET (fillfactor = 60);

-- +goose Down
ALTER TABLE attempts RESET (fillfactor);
ALTER TABLE steps RESET (fillfactor);
CREATE INDEX steps_execs ON steps (org_id, exec_id) WHERE state = 'started';
DROP INDEX tasks_idempotency;
ALTER TABLE tasks ADD UNIQUE (org_id, idempotency_key);
DROP INDEX tasks_active, tasks_due, tasks_pace;
CREATE INDEX tasks_active ON tasks (org_id, agent_id)
    WHERE state IN ('starting', 'running') OR (state = 'queued' AND admitted_at IS NOT NULL);
CREATE INDEX tasks_leased ON tasks (org_id) WHERE lease_hash IS NOT NULL;
CREATE INDEX tasks_due ON tasks (not_before) WHERE state = 'waiting' AND not_before IS NOT NULL;
CREATE INDEX tasks_pace ON tasks (org_id, finished_at DESC) WHERE state = 'succeeded' AND started_at IS NOT NULL;
ALTER TABLE events DROP CONSTRAINT events_pkey, ADD PRIMARY KEY (id), ADD UNIQUE (task_id, seq);
ALTER TABLE tasks ADD COLUMN event_seq bigint NOT NULL DEFAULT 0, ADD COLUMN event_xid xid8 NOT NULL DEFAULT '0';
UPDATE tasks SET event_seq = h.seq, event_xid = h.xid FROM event_heads h WHERE h.task_id = tasks.id;
DROP TABLE event_heads;
