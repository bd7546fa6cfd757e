-- name: TakeDelivery :one
-- Stores a delivery for a trigger of the revision with which it was verified,
-- if no hold is active on it. Otherwise, or if its key is known, returns no
-- row.
INSERT INTO deliveries (id, org_id, trigger_id, key, source, state, address, event, headers, body)
SELECT @id::text, t.org_id, t.id, @key::text, 'webhook', 'accepted', @address::text, @event::text, @headers::jsonb, @body::bytea
FROM triggers t
WHERE t.id = @trigger_id AND t.revision = @revision::int AND t.state = 'enabled' AND t.deleted_at IS NULL
  AND NOT held(t.org_id, t.agent_id, t.id, '')
ON CONFLICT (trigger_id, key) WHERE duplicate_of IS NULL DO NOTHING
RETURNING id;

-- name: TriggerStanding :one
-- Whether a hold is active on a trigger or on the task that it would start.
SELECT held(org_id, agent_id, id, '')::boolean FROM triggers WHERE id = @id;

-- name: DeliveryByKey :one
SELECT id, state, task_id FROM deliveries WHERE trigger_id = @trigger_id AND (org_id = @org_id) IS TRUE AND key = @key AND duplicate_of IS NULL;

-- name: CreateDuplicate :exec
INSERT INTO deliveries (id, org_id, trigger_id, key, source, state, reason, address, event, headers, duplicate_of, handled_at)
VALUES (@id, @org_id, @trigger_id, @key, 'webhook', 'duplicate', @reason, @address, @event, @headers, @duplicate_of::text, clock_timestamp());

-- name: CreateDelivery :one
-- Returns no row if its key is known.
INSERT INTO deliveries (id, org_id, trigger_id, key, source, state, sent_by, address, event, headers, body, goal, replay_of)
VALUES (@id, @org_id, @trigger_id, @key, @source, 'accepted', @sent_by, @address, @event, @headers, @body, @goal, sqlc.narg(replay_of))
ON CONFLICT (trigger_id, key) WHERE duplicate_of IS NULL DO NOTHING
RETURNING *;

-- name: FireSlots :exec
-- The firings of schedules and loops; existing ones are not changed.
INSERT INTO deliveries (id, org_id, trigger_id, key, source, state, reason, slot_at, handled_at)
SELECT u.id, u.org_id, u.trigger_id, u.key, u.source, u.state, u.reason, u.slot_at,
       CASE WHEN u.state <> 'accepted' THEN clock_timestamp() END
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@orgs::text[]) AS org_id, unnest(@triggers::text[]) AS trigger_id,
             unnest(@keys::text[]) AS key, unnest(@sources::text[]) AS source, unnest(@states::text[]) AS state,
             unnest(@reasons::text[]) AS reason, unnest(@slots::timestamptz[]) AS slot_at) AS u
ON CONFLICT (trigger_id, key) WHERE duplicate_of IS NULL DO NOTHING;

-- name: LockDueDeliveries :many
-- Those that have waited longest, a few of each organisation except those that
-- rest. A body of more than most bytes is left out.
SELECT d.id, d.org_id, d.trigger_id, d.source, d.event, d.headers, d.goal,
       (octet_length(d.body) > @most::int)::boolean AS large, CASE WHEN octet_length(d.body) > @most::int THEN '' ELSE d.body END::bytea AS body
FROM organisations o CROSS JOIN LATERAL (
    SELECT * FROM deliveries due WHERE due.org_id = o.id AND due.state = 'accepted' AND due.due_at <= clock_timestamp()
    ORDER BY due.due_at, due.received_at LIMIT @of_each FOR UPDATE SKIP LOCKED
) d WHERE o.id <> ALL (@resting::text[])
ORDER BY d.due_at, d.received_at LIMIT @max_rows;

-- name: LockDelivery :one
-- One that is still to be handled; no row while another hub handles it.
SELECT * FROM deliveries WHERE id = @id AND (org_id = @org_id) IS TRUE AND state = 'accepted' AND due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED;

-- name: FilterDeliveries :exec
-- In any organisation: their rows are locked.
UPDATE deliveries SET state = 'filtered', reason = @reason, handled_at = clock_timestamp() WHERE id = ANY (@ids::text[]) AND state = 'accepted';

-- name: SettleDelivery :exec
UPDATE deliveries SET state = @state, reason = @reason, prompt = @prompt, task_id = sqlc.narg(task_id), flight = @flight, handled_at = clock_timestamp()
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: PostponeDelivery :exec
UPDATE deliveries SET reason = @reason, flight = @flight, due_at = clock_timestamp() + @wait::interval
WHERE id = @id AND (org_id = @org_id) IS TRUE AND state = 'accepted';

-- name: WakeDeliveries :execrows
-- Those that wait for a task to end.
UPDATE deliveries d SET due_at = clock_timestamp()
WHERE d.org_id = @org_id AND d.state = 'accepted' AND d.flight <> ''
  AND d.flight IN (SELECT f.key FROM flights f WHERE f.org_id = @org_id AND f.task_id = @task_id::text);

-- name: WaitingBefore :one
-- How many earlier ones wait for the same.
SELECT count(*)::bigint FROM deliveries
WHERE org_id = @org_id AND flight = @flight AND state = 'accepted' AND (received_at, id) < (@received_at::timestamptz, @id::text);

-- name: LockFlight :one
-- Locks a key and returns the newest task under it; empty for none.
INSERT INTO flights (org_id, key) VALUES (@org_id, @key)
ON CONFLICT (org_id, key) DO UPDATE SET key = excluded.key
RETURNING task_id;

-- name: SetFlight :exec
UPDATE flights SET task_id = @task_id WHERE org_id = @org_id AND key = @key;

-- name: TaskIsLive :one
SELECT EXISTS (SELECT 1 FROM tasks WHERE id = @id AND (org_id = @org_id) IS TRUE AND finished_at IS NULL)::boolean;

-- name: FindDeliveries :many
-- Those of triggers that the viewer created or whose agent is the viewer's.
SELECT d.id, (d.id = @ref)::boolean AS exact FROM deliveries d JOIN triggers t ON t.id = d.trigger_id JOIN agents a ON a.id = t.agent_id
WHERE d.org_id = @org_id AND (d.id = @ref OR d.id LIKE @prefix)
  AND (@sees_all::boolean OR (@viewer::text <> '' AND agent_seen(t.agent_id, @viewer::text) AND (t.created_by = @viewer::text OR agent_owned(t.agent_id, @viewer::text))))
ORDER BY exact DESC, d.id LIMIT 2;

-- name: GetDelivery :one
SELECT sqlc.embed(d), t.name AS trigger_name FROM deliveries d JOIN triggers t ON t.id = d.trigger_id
WHERE d.id = @id AND (d.org_id = @org_id) IS TRUE;

-- name: ListDeliveries :many
-- Newest first, after a keyset position; NULL filters match all. Without the
-- bodies. Those of triggers that the viewer created or whose agent is the
-- viewer's: the newest of each are merged, so that no list is searched for in
-- all users' deliveries.
SELECT d.id, d.trigger_id, t.name AS trigger_name, d.key, d.source, d.state, d.reason, d.address, d.sent_by, d.event,
       d.slot_at, d.duplicate_of, d.replay_of, d.task_id, d.received_at, d.handled_at, octet_length(d.body)::int AS size
FROM triggers t JOIN agents a ON a.id = t.agent_id
CROSS JOIN LATERAL (
    SELECT x.* FROM deliveries x
    WHERE x.org_id = @org_id AND x.trigger_id = t.id
      AND (sqlc.narg(states)::text[] IS NULL OR x.state = ANY (sqlc.narg(states)::text[]))
      AND (sqlc.narg(before_time)::timestamptz IS NULL OR (x.received_at, x.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
    ORDER BY x.received_at DESC, x.id DESC LIMIT @max_rows) d
WHERE t.org_id = @org_id
  AND (sqlc.narg(trigger_id)::text IS NULL OR t.id = sqlc.narg(trigger_id))
  AND (@sees_all::boolean OR (@viewer::text <> '' AND agent_seen(t.agent_id, @viewer::text) AND (t.created_by = @viewer::text OR agent_owned(t.agent_id, @viewer::text))))
ORDER BY d.received_at DESC, d.id DESC LIMIT @max_rows;

-- name: PruneDeliveries :execrows
-- Those whose retention, set by their trigger, is over.
DELETE FROM deliveries WHERE id IN (
    SELECT d.id FROM triggers t CROSS JOIN LATERAL (
        SELECT x.id FROM deliveries x WHERE x.trigger_id = t.id AND x.state <> 'accepted'
          AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = x.task_id)
          AND x.received_at < clock_timestamp() - make_interval(days => coalesce((t.spec ->> 'retentionDays')::int, @days::int))
        ORDER BY x.received_at LIMIT @max_rows) d
    LIMIT @max_rows);

-- name: PruneFlights :execrows
-- Keys under which no task has run for a while, and no delivery waits.
DELETE FROM flights f
WHERE (f.task_id = '' OR EXISTS (SELECT 1 FROM tasks t WHERE t.id = f.task_id AND t.finished_at < clock_timestamp() - @idle::interval))
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.org_id = f.org_id AND d.flight = f.key AND d.state = 'accepted');
