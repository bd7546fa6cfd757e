-- name: CreateDestination :one
-- Begins with events from now on. Returns no row if the name is taken.
INSERT INTO destinations (id, org_id, name, kind, spec, state, reason, sealed, hint, after_xid, after_id, created_by, user_id, endpoint_hash)
SELECT @id, @org_id, @name, @kind, @spec, @state, @reason, @sealed, @hint, CAST(event_horizon() AS xid8),
       coalesce((SELECT max(e.id) FROM events e), 0), @created_by, sqlc.narg(user_id), sqlc.narg(endpoint_hash)
ON CONFLICT (org_id, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING *;

-- name: UpdateDestination :execrows
UPDATE destinations SET spec = @spec, sealed = @sealed, hint = @hint, updated_at = clock_timestamp()
WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL;

-- name: GetDestination :one
SELECT * FROM destinations WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL;

-- name: LockDestination :one
SELECT * FROM destinations WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL FOR UPDATE;

-- name: FindDestinations :many
SELECT id, (id = @ref OR name = @ref)::boolean AS exact FROM destinations
WHERE org_id = @org_id AND deleted_at IS NULL AND user_id IS NULL AND (id = @ref OR name = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: ListDestinations :many
-- A page by name, after a keyset position. Without the number of unsent
-- notifications; see CountNotifications.
SELECT * FROM destinations WHERE org_id = @org_id AND deleted_at IS NULL AND user_id IS NULL AND name > @after_name::text ORDER BY name LIMIT @max_rows;

-- name: CountDestinations :one
SELECT count(*)::bigint FROM destinations WHERE org_id = @org_id AND deleted_at IS NULL AND user_id IS NULL;

-- name: ListDevices :many
-- A user's devices, oldest first.
SELECT * FROM destinations WHERE org_id = @org_id AND user_id = @user_id::text AND deleted_at IS NULL ORDER BY created_at, id;

-- name: DeviceOfEndpoint :one
-- Whose-ever it is: a browser that another user subscribes is theirs from then on.
SELECT * FROM destinations WHERE endpoint_hash = @endpoint_hash AND deleted_at IS NULL FOR UPDATE;

-- name: PushUser :one
-- The user of a device: their name, whether they see all tasks, and their preference for
-- notifications. No row if they may not log in.
SELECT u.name, (effective_role(u.id) = 'admin')::boolean AS admin,
       coalesce((SELECT m.value #>> '{}' FROM memories m
                 WHERE m.org_id = u.org_id AND m.scope_kind = 'user' AND m.scope_id = u.id AND m.only_for = '' AND m.type = 'preference' AND m.key = 'notifications'
                   AND m.confirmed_by <> '' AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())), '')::text AS notifications
FROM users u WHERE u.org_id = @org_id AND u.id = @id AND u.disabled_at IS NULL;

-- name: CountNotifications :many
-- The numbers of pending and dead notifications of each destination.
SELECT destination_id, count(*) FILTER (WHERE state = 'pending')::bigint AS pending, count(*) FILTER (WHERE state = 'dead')::bigint AS dead
FROM notifications WHERE org_id = @org_id AND state <> 'delivered' GROUP BY destination_id;

-- name: EnableDestination :exec
-- From now on: events since it was disabled are not sent.
UPDATE destinations SET state = 'enabled', reason = '', state_at = clock_timestamp(), updated_at = clock_timestamp(),
       after_xid = CAST(event_horizon() AS xid8), after_id = coalesce((SELECT max(e.id) FROM events e), 0)
WHERE destinations.id = @id AND (destinations.org_id = @org_id) IS TRUE AND deleted_at IS NULL;

-- name: DisableDestination :exec
UPDATE destinations SET state = 'disabled', reason = @reason, state_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL AND state = 'enabled';

-- name: DeleteDestination :exec
UPDATE destinations SET deleted_at = clock_timestamp(), sealed = NULL, state = 'disabled', reason = 'it was deleted'
WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL;

-- name: EndNotifications :exec
-- The notifications that a deleted destination will never get.
UPDATE notifications SET state = 'dead', error = @error, handled_at = clock_timestamp()
WHERE destination_id = @destination_id AND (org_id = @org_id) IS TRUE AND state = 'pending';

-- name: EnabledDestinations :many
-- In any organisation.
SELECT * FROM destinations WHERE state = 'enabled' AND deleted_at IS NULL ORDER BY id;

-- name: DestinationsOf :many
-- The enabled ones of an organisation.
SELECT * FROM destinations WHERE org_id = @org_id AND state = 'enabled' AND deleted_at IS NULL ORDER BY id;

-- name: EventsToTell :many
-- The next events in commit order (see EventsAfter), with the payloads of those
-- of the wanted types.
SELECT e.id, CAST(e.xid AS text) AS xid, e.task_id, e.seq, e.type, e.time, e.actor_kind, e.actor_id, e.attempt, e.correlation_id, e.payload,
       e.wanted, coalesce(t.agent_id, '')::text AS agent_id, coalesce(a.name, '')::text AS agent_name, coalesce(t.title, '')::text AS title, coalesce(t.created_by, '')::text AS created_by,
       coalesce(t.failures, 0)::int AS failures, coalesce(t.input_tokens + t.output_tokens, 0)::bigint AS tokens, coalesce(t.cost_micros, 0)::bigint AS cost_micros
FROM (SELECT x.id, x.xid, x.task_id, x.seq, x.type, x.time, x.actor_kind, x.actor_id, x.attempt, x.correlation_id,
             (x.type = ANY (@types::text[]))::boolean AS wanted,
             CASE WHEN x.type = ANY (@types::text[]) THEN x.payload ELSE '{}' END::jsonb AS payload
      FROM events x
      WHERE x.org_id = @org_id AND (x.xid, x.id) > (CAST(@after_xid::text AS xid8), @after_id::bigint) AND x.xid < CAST(@horizon::text AS xid8)
      ORDER BY x.xid, x.id LIMIT @max_rows) AS e
LEFT JOIN tasks t ON e.wanted AND t.id = e.task_id
LEFT JOIN agents a ON a.id = t.agent_id
ORDER BY e.xid, e.id;

-- name: MoveDestination :execrows
-- Returns 0 if another hub moved it, or the destination has been disabled.
UPDATE destinations SET after_xid = CAST(@after_xid::text AS xid8), after_id = @after_id::bigint
WHERE id = @id AND (org_id = @org_id) IS TRUE AND after_xid = CAST(@from_xid::text AS xid8) AND after_id = @from_id::bigint AND state = 'enabled';

-- name: OweNotifications :exec
-- Notifications that are stored already are not changed.
INSERT INTO notifications (id, org_id, destination_id, happening, type, task_id, body, expires_at)
SELECT u.id, @org_id::text, u.destination_id, u.happening, u.type, u.task_id, u.body::jsonb, clock_timestamp() + @keep::interval
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@destinations::text[]) AS destination_id, unnest(@happenings::text[]) AS happening,
             unnest(@types::text[]) AS type, unnest(@tasks::text[]) AS task_id, unnest(@bodies::text[]) AS body) AS u
ON CONFLICT (destination_id, happening) DO NOTHING;

-- name: OweTest :exec
-- A notification that the caller sends itself, once.
INSERT INTO notifications (id, org_id, destination_id, happening, type, body, attempts, next_at, expires_at)
VALUES (@id, @org_id, @destination_id, @id, @type, @body, 1, clock_timestamp() + @lease::interval, clock_timestamp());

-- name: ClaimNotifications :many
-- Claims due notifications, a few of each destination, for the time of a lease.
-- Those whose sender died are claimed again.
WITH due AS (
    SELECT n.id FROM destinations d CROSS JOIN LATERAL (
        SELECT x.id FROM notifications x WHERE x.destination_id = d.id AND x.state = 'pending' AND x.next_at <= clock_timestamp()
        ORDER BY x.next_at, x.id LIMIT @each FOR UPDATE SKIP LOCKED) n
    WHERE d.state = 'enabled' AND d.deleted_at IS NULL AND d.id <> ALL (@busy::text[])
    LIMIT @max_rows
)
UPDATE notifications n SET attempts = n.attempts + 1, next_at = clock_timestamp() + @lease::interval
FROM due WHERE n.id = due.id
RETURNING n.id, n.org_id, n.destination_id, n.type, n.task_id, n.body, n.attempts, n.expires_at, clock_timestamp()::timestamptz AS now;

-- name: SettleNotification :execrows
-- Stores the result of an attempt. Only the hub that sent last does so.
UPDATE notifications SET state = @state, error = @error, tries = tries || @try::jsonb,
       handled_at = CASE WHEN @state::text <> 'pending' THEN clock_timestamp() END,
       next_at = clock_timestamp() + @wait::interval
WHERE id = @id AND (org_id = @org_id) IS TRUE AND state = 'pending' AND attempts = @attempts;

-- name: ExpireNotifications :execrows
-- Notifications that are not sent because their destination is disabled, and
-- whose time is over.
UPDATE notifications SET state = 'dead', error = CASE WHEN error = '' THEN @error::text ELSE error END, handled_at = clock_timestamp()
WHERE id IN (SELECT n.id FROM destinations d JOIN notifications n ON n.destination_id = d.id
             WHERE d.state = 'disabled' AND n.state = 'pending' AND n.expires_at < clock_timestamp() LIMIT @max_rows);

-- name: FindNotifications :many
SELECT id, (id = @ref)::boolean AS exact FROM notifications WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix) ORDER BY exact DESC, id LIMIT 2;

-- name: GetNotification :one
SELECT sqlc.embed(n), d.name AS destination_name FROM notifications n JOIN destinations d ON d.id = n.destination_id
WHERE n.id = @id AND (n.org_id = @org_id) IS TRUE AND d.user_id IS NULL;

-- name: ListNotifications :many
-- Newest first, after a keyset position; NULL filters match all. Without the
-- bodies.
SELECT n.id, n.destination_id, d.name AS destination_name, n.type, n.task_id, n.state, n.attempts, n.tries, n.error, n.created_at, n.next_at,
       n.expires_at, n.handled_at
FROM notifications n JOIN destinations d ON d.id = n.destination_id
WHERE n.org_id = @org_id AND d.user_id IS NULL
  AND (sqlc.narg(destination_id)::text IS NULL OR n.destination_id = sqlc.narg(destination_id))
  AND (sqlc.narg(states)::text[] IS NULL OR n.state = ANY (sqlc.narg(states)::text[]))
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (n.created_at, n.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY n.created_at DESC, n.id DESC LIMIT @max_rows;

-- name: RedriveNotifications :execrows
-- Dead ones are sent again, unchanged: that one, or all of a destination.
UPDATE notifications SET state = 'pending', handled_at = NULL, next_at = clock_timestamp(), expires_at = clock_timestamp() + @keep::interval
WHERE (notifications.org_id = @org_id) IS TRUE AND notifications.state = 'dead'
  AND (notifications.id = @id::text OR @id::text = '' AND notifications.destination_id = @destination_id::text)
  AND notifications.destination_id IN (SELECT d.id FROM destinations d WHERE d.org_id = @org_id AND d.deleted_at IS NULL);

-- name: PruneNotifications :execrows
DELETE FROM notifications WHERE id IN (
    SELECT n.id FROM notifications n WHERE n.state <> 'pending' AND n.handled_at < clock_timestamp() - @keep::interval ORDER BY n.handled_at LIMIT @max_rows);

-- name: RebaseDestinations :execrows
-- As RebaseEvents. Events that are read again are not sent again.
UPDATE destinations SET after_xid = '3', after_id = greatest(after_id - @again::bigint, 0) WHERE after_xid > pg_snapshot_xmax(pg_current_snapshot());

-- name: DeviceNotification :one
-- Why a device did not take a notification; '' if it did.
SELECT error FROM notifications WHERE id = @id AND (org_id = @org_id) IS TRUE;
