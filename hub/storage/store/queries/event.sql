-- name: AppendEvents :one
-- Appends to a task's events in one round trip; see append_events. Returns the last
-- number.
SELECT append_events(t.id, t.org_id, t.attempt, t.correlation_id, @types::text[], @actor_kinds::text[], @actor_ids::text[],
                     @payloads::text[], '{}')::bigint AS seq
FROM tasks t WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE;

-- name: AppendLeasedEvents :one
-- As AppendEvents, for the holder of the lease, in its own transaction: no row
-- if the lease has ended. A numbered batch is stored once; for a repeated one 0
-- is returned.
WITH held AS (
    SELECT t.id, t.org_id, t.correlation_id, t.attempt, t.worker_id FROM tasks t
    WHERE t.id = @task_id AND (t.org_id = @org_id) IS TRUE AND t.attempt = @attempt AND t.lease_hash = @lease_hash
      AND t.lease_expires_at > clock_timestamp()
    FOR UPDATE
), fresh AS (
    UPDATE attempts a SET batch = greatest(a.batch, @batch::bigint) FROM held
    WHERE a.task_id = held.id AND a.attempt = held.attempt AND (@batch::bigint = 0 OR a.batch < @batch::bigint)
    RETURNING a.task_id
)
SELECT CASE WHEN fresh.task_id IS NULL THEN 0
            ELSE append_events_of(held.id, held.org_id, held.attempt, held.correlation_id, 'worker', held.worker_id,
                                  @types::text[], @payloads::text[], '{}') END::bigint AS seq
FROM held LEFT JOIN fresh ON fresh.task_id = held.id;

-- name: EventHorizon :one
-- No transaction of this database that is invisible to a statement that begins
-- after this one has a lower id.
SELECT event_horizon()::text;

-- name: EventsAfter :many
-- In commit order: only transactions that no running one can still precede.
SELECT id, CAST(xid AS text) AS xid, task_id, seq, type, time, actor_kind, actor_id, attempt, correlation_id, payload
FROM events
WHERE org_id = @org_id
  AND (xid, id) > (CAST(@after_xid::text AS xid8), @after_id::bigint)
  AND xid < CAST(@horizon::text AS xid8)
ORDER BY events.xid, id LIMIT @max_rows;

-- name: TaskEventsAfter :many
SELECT id, CAST(xid AS text) AS xid, task_id, seq, type, time, actor_kind, actor_id, attempt, correlation_id, payload
FROM events
WHERE org_id = @org_id AND task_id = ANY (@task_ids::text[])
  AND (xid, id) > (CAST(@after_xid::text AS xid8), @after_id::bigint)
  AND xid < CAST(@horizon::text AS xid8)
ORDER BY events.xid, id LIMIT @max_rows;

-- name: TaskEventsBefore :many
-- The last events of a task below a number, the newest first.
SELECT id, CAST(xid AS text) AS xid, task_id, seq, type, time, actor_kind, actor_id, attempt, correlation_id, payload
FROM events
WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE AND seq < @before_seq
ORDER BY seq DESC LIMIT @max_rows;

-- name: TaskEventsFrom :many
-- The first events of a task above a number.
SELECT id, CAST(xid AS text) AS xid, task_id, seq, type, time, actor_kind, actor_id, attempt, correlation_id, payload
FROM events
WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE AND seq > @after_seq
ORDER BY seq LIMIT @max_rows;

-- name: NewestEvent :one
-- The last committed event; of those tasks, or of all without tasks.
SELECT id, CAST(xid AS text) AS xid FROM events
WHERE org_id = @org_id AND (cardinality(@task_ids::text[]) = 0 OR task_id = ANY (@task_ids::text[]))
ORDER BY events.xid DESC, id DESC LIMIT 1;

-- name: WatchEnded :one
-- All watched tasks have ended and none of their events comes after the cursor,
-- visible yet or not.
SELECT (NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = ANY (@task_ids::text[]) AND (t.org_id = @org_id) IS TRUE AND t.finished_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM events e WHERE e.org_id = @org_id AND e.task_id = ANY (@task_ids::text[])
                      AND (e.xid, e.id) > (CAST(@after_xid::text AS xid8), @after_id::bigint)))::boolean AS ended;

-- name: RebaseEvents :execrows
-- After a restore into another server, transaction ids there may be lower than
-- those of the events, which are then ordered by their ids.
UPDATE events SET xid = '3'
WHERE EXISTS (SELECT 1 FROM organisations o WHERE pg_snapshot_xmax(pg_current_snapshot())
    <= (SELECT e.xid FROM events e WHERE e.org_id = o.id ORDER BY e.xid DESC LIMIT 1));

-- name: PrunableTasks :many
-- Tasks that ended longer ago than their events are kept, in any organisation.
-- A task that was pruned has no event left. The events of a task are kept while
-- a destination has yet to get one, and while it has a legal hold.
SELECT t.id, t.org_id FROM tasks t
WHERE t.finished_at < clock_timestamp() - @older_than::interval
  AND EXISTS (SELECT 1 FROM event_heads h WHERE h.task_id = t.id) AND NOT EXISTS (SELECT 1 FROM pruned_events p WHERE p.task_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM destinations d JOIN event_heads h ON h.task_id = t.id
                  WHERE d.org_id = t.org_id AND d.state = 'enabled' AND d.deleted_at IS NULL AND d.after_xid < h.xid)
ORDER BY t.finished_at LIMIT @max_rows;

-- name: PruneEvents :exec
-- Deletes a finished task's events, and what can be found of their texts, and records the
-- position of the last one.
WITH gone AS (
    DELETE FROM events e WHERE e.org_id = @org_id AND e.task_id = @task_id RETURNING e.xid, e.id
), unfound AS (
    DELETE FROM search_entries s WHERE s.org_id = @org_id AND s.task_id = @task_id AND s.kind = 'message'
)
INSERT INTO pruned_events (task_id, org_id, last_xid, last_id, events)
SELECT @task_id, @org_id, g.xid, g.id, (SELECT count(*) FROM gone) FROM gone g ORDER BY g.xid DESC, g.id DESC LIMIT 1
ON CONFLICT (task_id) DO UPDATE SET last_xid = excluded.last_xid, last_id = excluded.last_id, events = pruned_events.events + excluded.events;

-- name: CountEventsOf :one
SELECT count(*)::bigint AS events FROM events WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);

-- name: Undelivered :many
-- Those of some tasks of whose events a destination has yet to get one; see PrunableTasks.
SELECT h.task_id FROM event_heads h JOIN tasks t ON t.id = h.task_id
WHERE t.org_id = @org_id AND h.task_id = ANY (@tasks::text[])
  AND EXISTS (SELECT 1 FROM destinations d WHERE d.org_id = t.org_id AND d.state = 'enabled' AND d.deleted_at IS NULL AND d.after_xid < h.xid);

-- name: RebaseEventHeads :execrows
-- As RebaseEvents, and called before it: both use the same events.
UPDATE event_heads SET xid = '3'
WHERE EXISTS (SELECT 1 FROM organisations o WHERE pg_snapshot_xmax(pg_current_snapshot())
    <= (SELECT e.xid FROM events e WHERE e.org_id = o.id ORDER BY e.xid DESC LIMIT 1));

-- name: RebasePrunedEvents :execrows
-- As RebaseEvents.
UPDATE pruned_events SET last_xid = '3' WHERE last_xid >= pg_snapshot_xmax(pg_current_snapshot());

-- name: PrunedAfter :one
-- A deleted event that came after the cursor: of those tasks, or of all without
-- tasks.
SELECT task_id, pruned_at FROM pruned_events
WHERE org_id = @org_id AND (cardinality(@task_ids::text[]) = 0 OR task_id = ANY (@task_ids::text[]))
  AND (last_xid, last_id) > (CAST(@after_xid::text AS xid8), @after_id::bigint)
ORDER BY last_xid DESC, last_id DESC LIMIT 1;

-- name: TaskMoments :many
-- What the index of a history has of a task's events of some types, after a number.
SELECT seq, time, type, coalesce(payload ->> 'step_id', '')::text AS step_id, coalesce((payload ->> 'number')::int, 0)::int AS number,
       coalesce(payload ->> 'tool', '')::text AS tool, coalesce((payload ->> 'turn')::int, (payload ->> 'iteration')::int, 0)::int AS turn,
       coalesce(payload ->> 'state', payload ->> 'to', '')::text AS state, coalesce((payload -> 'workspace' ->> 'files')::int, 0)::int AS files,
       left(coalesce(payload -> 'arguments' ->> 'command', payload -> 'arguments' ->> 'path', payload -> 'arguments' ->> 'from',
                     payload -> 'arguments' ->> 'url', payload -> 'arguments' ->> 'query', payload -> 'arguments' ->> 'pattern',
                     payload -> 'arguments' ->> 'goal', payload -> 'arguments' ->> 'question', payload -> 'arguments' ->> 'summary',
                     payload ->> 'question', payload ->> 'text', payload ->> 'goal', payload ->> 'command', payload ->> 'answer',
                     payload ->> 'message', payload ->> 'summary', payload ->> 'reason', payload ->> 'kind', ''), @title_length::int)::text AS title,
       coalesce((payload -> 'usage' ->> 'input_tokens')::bigint, 0)::bigint AS input_tokens,
       coalesce((payload -> 'usage' ->> 'output_tokens')::bigint, 0)::bigint AS output_tokens,
       coalesce((payload -> 'usage' ->> 'cache_read_tokens')::bigint, 0)::bigint AS cache_read_tokens,
       coalesce((payload -> 'usage' ->> 'cache_write_tokens')::bigint, 0)::bigint AS cache_write_tokens,
       coalesce((payload -> 'usage' ->> 'cost_micros')::bigint, 0)::bigint AS cost_micros
FROM events
WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE AND seq > @after_seq AND type = ANY (@types::text[])
ORDER BY seq LIMIT @max_rows;

-- name: TaskMomentBefore :one
-- The number of the event before the newest ones that a history's index has of a task.
SELECT seq FROM events
WHERE task_id = @task_id AND (org_id = @org_id) IS TRUE AND type = ANY (@types::text[])
ORDER BY seq DESC OFFSET @newest::int LIMIT 1;
