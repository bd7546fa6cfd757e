-- name: JoinOutage :one
-- Has a task wait for a model, and returns how long it may yet: until max_wait after its
-- model last answered. What is not positive is over.
UPDATE tasks SET outage_provider = @provider, outage_model = @model, outage_since = coalesce(outage_since, clock_timestamp())
WHERE id = @id AND (org_id = @org_id) IS TRUE
RETURNING outage_since, (outage_since - clock_timestamp() + @max_wait::interval)::interval AS time_left;

-- name: LeaveOutage :exec
UPDATE tasks SET outage_provider = '', outage_model = '', outage_since = NULL WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: CreateOutage :exec
INSERT INTO model_outages (org_id, provider, model) VALUES (@org_id, @provider, @model) ON CONFLICT DO NOTHING;

-- name: LockOutage :one
SELECT * FROM model_outages WHERE org_id = @org_id AND provider = @provider AND model = @model FOR UPDATE;

-- name: CountOutageFailure :exec
-- wait, if set, is until the next probe.
UPDATE model_outages SET failed_at = clock_timestamp(), failures = @failures, prober = @prober,
    probe_at = coalesce(clock_timestamp() + sqlc.narg(wait)::interval, probe_at)
WHERE org_id = @org_id AND provider = @provider AND model = @model;

-- name: Outages :many
-- The models that tasks wait for: whether it is time for a probe, and whether the model
-- has answered since it last failed, be it the task that probes or another. A model
-- without a row is due.
SELECT w.org_id, w.outage_provider AS provider, w.outage_model AS model, w.tasks, o.failed_at,
    coalesce(o.probe_at <= clock_timestamp(), true)::boolean AS due,
    coalesce(EXISTS (SELECT 1 FROM tasks p WHERE p.org_id = o.org_id AND p.id = o.prober AND p.outage_since IS NULL)
        OR EXISTS (SELECT 1 FROM model_calls c WHERE c.org_id = o.org_id AND c.provider = o.provider AND c.model = o.model
            AND c.started_at > o.failed_at AND c.basis = 'reported' AND c.output_tokens > 0), false)::boolean AS answers
FROM (SELECT org_id, outage_provider, outage_model, count(*) AS tasks FROM tasks
      WHERE state = 'waiting' AND outage_since IS NOT NULL GROUP BY org_id, outage_provider, outage_model) w
LEFT JOIN model_outages o ON o.org_id = w.org_id AND o.provider = w.outage_provider AND o.model = w.outage_model
ORDER BY w.org_id, w.outage_provider, w.outage_model;

-- name: LockTaskInOutage :one
-- The task that has waited longest.
SELECT * FROM tasks
WHERE org_id = @org_id AND outage_provider = @provider AND outage_model = @model AND state = 'waiting' AND outage_since IS NOT NULL
ORDER BY outage_since, id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: ProbeOutage :exec
INSERT INTO model_outages (org_id, provider, model, prober, probe_at)
VALUES (@org_id, @provider, @model, @prober, clock_timestamp() + @wait::interval)
ON CONFLICT (org_id, provider, model) DO UPDATE SET prober = excluded.prober, probe_at = excluded.probe_at;

-- name: DeleteOutage :exec
-- Unless the model has failed again since.
DELETE FROM model_outages WHERE org_id = @org_id AND provider = @provider AND model = @model AND failed_at = @failed_at;

-- name: DeleteOldOutages :exec
-- Of models that no task waits for any more.
DELETE FROM model_outages o WHERE o.failed_at < clock_timestamp() - interval '1 hour' AND NOT EXISTS (
    SELECT 1 FROM tasks t WHERE t.org_id = o.org_id AND t.outage_provider = o.provider AND t.outage_model = o.model AND t.outage_since IS NOT NULL);

-- name: ProbeNow :exec
-- Has a task try each model of a provider at once.
UPDATE model_outages SET probe_at = clock_timestamp(), prober = '' WHERE org_id = @org_id AND provider = @provider;

-- name: CountTasksInOutage :one
-- How many tasks wait for a provider's models.
SELECT count(*)::int FROM tasks WHERE org_id = @org_id AND outage_provider = @provider AND outage_since IS NOT NULL AND state = 'waiting';
