-- name: CreateTrigger :one
-- Returns no row if the name is taken.
INSERT INTO triggers (id, org_id, agent_id, name, kind, spec, state, reason, sealed, hint, slot_at, next_at, declared, created_by)
VALUES (@id, @org_id, @agent_id, @name, @kind, @spec, @state, @reason, sqlc.narg(sealed), @hint, sqlc.narg(slot_at), sqlc.narg(next_at), @declared, @created_by)
ON CONFLICT (org_id, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING *;

-- name: TriggersOfNames :many
SELECT id, name, agent_id, declared FROM triggers WHERE org_id = @org_id AND name = ANY (@names::text[]) AND deleted_at IS NULL ORDER BY name;

-- name: DeclaredTriggers :many
SELECT * FROM triggers WHERE org_id = @org_id AND agent_id = @agent_id AND declared AND deleted_at IS NULL ORDER BY name;

-- name: FindTriggers :many
-- By name, id or id prefix; see store.One.
SELECT id, (name = @ref OR id = @ref)::boolean AS exact FROM triggers
WHERE org_id = @org_id AND deleted_at IS NULL AND (name = @ref OR id = @ref OR id LIKE @prefix)
  AND (@sees_all::boolean OR agent_seen(agent_id, @viewer::text))
ORDER BY exact DESC, id LIMIT 2;

-- name: GetTrigger :one
SELECT sqlc.embed(t), a.name AS agent_name, clock_timestamp()::timestamptz AS now
FROM triggers t JOIN agents a ON a.id = t.agent_id
WHERE t.id = @id AND (t.org_id = @org_id) IS TRUE AND t.deleted_at IS NULL;

-- name: TriggerByID :one
-- For senders, which do not know the organisation.
SELECT * FROM triggers WHERE id = @id AND deleted_at IS NULL;

-- name: LockTrigger :one
SELECT * FROM triggers WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL FOR UPDATE;

-- name: ListTriggers :many
SELECT sqlc.embed(t), a.name AS agent_name, clock_timestamp()::timestamptz AS now
FROM triggers t JOIN agents a ON a.id = t.agent_id
WHERE t.org_id = @org_id AND t.deleted_at IS NULL AND (sqlc.narg(agent_id)::text IS NULL OR t.agent_id = sqlc.narg(agent_id))
  AND t.name > @after_name AND a.deleted_at IS NULL AND (@sees_all::boolean OR agent_seen(t.agent_id, @viewer::text))
ORDER BY t.name LIMIT @max_rows;

-- name: UpdateTrigger :one
UPDATE triggers SET spec = @spec, created_by = @created_by, slot_at = sqlc.narg(slot_at), next_at = sqlc.narg(next_at),
    revision = revision + 1, updated_at = clock_timestamp()
WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL
RETURNING *;

-- name: SetTriggerState :one
UPDATE triggers SET state = @state, reason = @reason, state_at = clock_timestamp(), slot_at = sqlc.narg(slot_at), next_at = sqlc.narg(next_at),
    runs = CASE WHEN @state = 'enabled' THEN 0 ELSE runs END, revision = revision + 1, updated_at = clock_timestamp()
WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL
RETURNING *;

-- name: SetTriggerSecret :one
-- The previous secret stays valid for a while.
UPDATE triggers SET sealed_before = CASE WHEN @keep::interval > '0' THEN sealed END,
    before_until = CASE WHEN @keep::interval > '0' AND sealed IS NOT NULL THEN clock_timestamp() + @keep::interval END,
    sealed = @sealed, hint = @hint, revision = revision + 1, updated_at = clock_timestamp()
WHERE id = @id AND (org_id = @org_id) IS TRUE AND deleted_at IS NULL
RETURNING *;

-- name: DeleteTrigger :exec
UPDATE triggers SET deleted_at = clock_timestamp(), state = 'disabled', reason = 'deleted', revision = revision + 1,
    sealed = NULL, sealed_before = NULL, before_until = NULL, slot_at = NULL, next_at = NULL
WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: LockDueTriggers :many
-- Those that are due by the database's clock, the latest first.
SELECT sqlc.embed(t), clock_timestamp()::timestamptz AS now FROM triggers t
WHERE t.state = 'enabled' AND t.deleted_at IS NULL AND t.next_at IS NOT NULL AND t.next_at <= clock_timestamp()
ORDER BY t.next_at LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: NextDueTrigger :one
-- How long until the next one is due; a day if there is none.
SELECT coalesce((SELECT t.next_at - clock_timestamp() FROM triggers t
                 WHERE t.state = 'enabled' AND t.deleted_at IS NULL AND t.next_at IS NOT NULL
                 ORDER BY t.next_at LIMIT 1), interval '1 day')::interval AS wait;

-- name: SetTriggerSlots :exec
UPDATE triggers t SET slot_at = u.slot_at, next_at = u.next_at
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@slots::timestamptz[]) AS slot_at, unnest(@nexts::timestamptz[]) AS next_at) AS u
WHERE t.id = u.id;

-- name: SetTriggerNext :exec
UPDATE triggers SET next_at = sqlc.narg(next_at) WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: RestingLoops :many
-- Loops that wait only for their pause to begin: their newest firing is
-- handled, and its task has ended. asked is how many seconds of pause that run
-- requested; -1 for none.
SELECT sqlc.embed(t), coalesce(k.finished_at, d.handled_at, t.state_at)::timestamptz AS ended_at, coalesce(d.state, '')::text AS delivery_state,
       coalesce((SELECT least(greatest((s.arguments ->> 'next_run_in_seconds')::numeric, 0), 2592000)::bigint FROM steps s
                 WHERE s.task_id = k.id AND s.tool = 'complete_task' AND s.state <> 'denied' AND jsonb_typeof(s.arguments -> 'next_run_in_seconds') = 'number'
                 ORDER BY s.number DESC LIMIT 1), -1)::bigint AS asked
FROM triggers t
LEFT JOIN LATERAL (SELECT * FROM deliveries WHERE org_id = t.org_id AND trigger_id = t.id AND duplicate_of IS NULL
                   ORDER BY received_at DESC, id DESC LIMIT 1) d ON true
LEFT JOIN tasks k ON k.id = d.task_id
WHERE t.kind = 'loop' AND t.state = 'enabled' AND t.deleted_at IS NULL AND t.next_at IS NULL
  AND coalesce(d.state, '') <> 'accepted' AND (k.id IS NULL OR k.finished_at IS NOT NULL)
LIMIT @max_rows;

-- name: CountTriggerRun :exec
UPDATE triggers SET runs = runs + 1, last_task_id = @task_id WHERE id = @id AND (org_id = @org_id) IS TRUE;

-- name: CountDearRuns :one
-- Lineages that a trigger started since a time, that ended recently, and that
-- cost at least so much.
SELECT count(*)::bigint FROM (
    SELECT 1 FROM tasks WHERE org_id = @org_id AND trigger_id = @trigger_id AND finished_at > clock_timestamp() - @within::interval
      AND created_at >= @since
    GROUP BY lineage_id HAVING sum(cost_micros) >= @cost_micros::bigint) AS dear;

-- name: TriggerSpend :one
-- The cost of a trigger's tasks since a time.
SELECT coalesce(sum(cost_micros), 0)::bigint FROM tasks
WHERE org_id = @org_id AND trigger_id = @trigger_id AND created_at >= @since;
