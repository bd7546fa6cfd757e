-- +goose Up
-- log_due: the step was cancelled while it ran on a node, and nothing is stored yet of how its
-- command ended and what it has written. log_stored_at is when that was stored.
ALTER TABLE steps ADD COLUMN log_due boolean NOT NULL DEFAULT false, ADD COLUMN log_stored_at timestamptz;
CREATE INDEX steps_log_due ON steps (node_id) WHERE log_due;

-- The logs of steps that were started on a node. A log is whole when nothing more is written to it
-- and its length is stored. A job goes on writing after the call that started it has ended, and a
-- command in the state unknown may run again until its task ends. Whatever makes a log whole locks
-- the row of its task, so that the logs of a task become whole in the order of whole_at.
CREATE VIEW step_logs AS
SELECT s.org_id, s.task_id, s.id, s.number, s.tool, s.exec_id, s.node_id, s.started_at,
       coalesce((j.outcome ->> 'log_bytes')::bigint, s.log_bytes) AS log_bytes,
       s.finished_at IS NOT NULL AND coalesce(j.state = 'ended', true) AND NOT s.log_due
         AND (s.state <> 'unknown' OR t.finished_at IS NOT NULL) AS whole,
       greatest(s.finished_at, s.log_stored_at, j.stored_at, CASE WHEN s.state = 'unknown' THEN t.finished_at END) AS whole_at
FROM steps s JOIN tasks t ON t.id = s.task_id LEFT JOIN jobs j ON j.step_id = s.id
WHERE s.started_at IS NOT NULL AND s.node_id IS NOT NULL;

-- +goose Down
DROP VIEW step_logs;
DROP INDEX steps_log_due;
ALTER TABLE steps DROP COLUMN log_due, DROP COLUMN log_stored_at;
