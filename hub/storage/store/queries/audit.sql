-- name: AppendAudit :exec
INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, severity, before, after, reason, address, user_agent)
VALUES (@org_id, @actor_kind, @actor_id, @action, @object_kind, @object_id, @severity, @before, @after, @reason, @address, @user_agent);

-- name: ListAudit :many
-- Newest first, below an id; '' and 0 match all.
SELECT * FROM audit_entries
WHERE org_id = @org_id AND (@before_id::bigint = 0 OR id < @before_id)
  AND (@object_id::text = '' OR object_id = @object_id)
  AND (@actor_id::text = '' OR actor_id = @actor_id)
  AND (@action::text = '' OR action = @action)
  AND (@severity::text = '' OR severity = @severity)
  AND (sqlc.narg('since')::timestamptz IS NULL OR time >= sqlc.narg('since'))
  AND (sqlc.narg('until')::timestamptz IS NULL OR time < sqlc.narg('until'))
  AND (@contains::text = '' OR strpos(lower(concat_ws(' ', action, object_kind, object_id, actor_id, reason, before::text, after::text)), lower(@contains)) > 0)
ORDER BY id DESC LIMIT @max_rows;

-- name: UnsealedOrganisations :many
SELECT DISTINCT org_id FROM audit_unsealed ORDER BY org_id;

-- name: TakeUnsealed :many
-- Locks entries to add them to the chain, in the order of their ids.
WITH taken AS (
    DELETE FROM audit_unsealed u
    WHERE u.entry_id IN (SELECT n.entry_id FROM audit_unsealed n WHERE n.org_id = @org_id ORDER BY n.entry_id LIMIT @max_rows)
    RETURNING u.entry_id
)
SELECT sqlc.embed(e) FROM taken JOIN audit_entries e ON e.id = taken.entry_id ORDER BY e.id;

-- name: ChainEntries :exec
INSERT INTO audit_chain (org_id, position, entry_id) SELECT @org_id, unnest(@positions::bigint[]), unnest(@ids::bigint[]);

-- name: AddAuditHead :exec
INSERT INTO audit_heads (org_id, number, position, hash, time, signature)
VALUES (@org_id, @number, @position, @hash, @time, @signature);

-- name: LastAuditHead :one
SELECT * FROM audit_heads WHERE org_id = @org_id ORDER BY number DESC LIMIT 1;

-- name: AuditHeadAt :one
-- Returns the last head at or below a position.
SELECT * FROM audit_heads WHERE org_id = @org_id AND position <= @position ORDER BY position DESC LIMIT 1;

-- name: NextAuditHead :one
-- Returns the first head behind a position.
SELECT * FROM audit_heads WHERE org_id = @org_id AND position > @position ORDER BY position LIMIT 1;

-- name: AuditOutsideChain :one
-- Counts the entries that are not in the chain: those that wait to be sealed, and those
-- that nothing will seal (lost), with the first of these; 0 without one. headless counts
-- those in the chain behind its last head: sealing adds both at once.
SELECT count(u.entry_id) AS unsealed, count(*) FILTER (WHERE u.entry_id IS NULL) AS lost,
       coalesce(min(e.id) FILTER (WHERE u.entry_id IS NULL), 0)::bigint AS first_lost,
       (SELECT count(*) FROM audit_chain h WHERE h.org_id = @org_id
          AND h.position > coalesce((SELECT max(position) FROM audit_heads WHERE org_id = @org_id), 0)) AS headless
FROM audit_entries e
LEFT JOIN audit_chain c ON c.entry_id = e.id
LEFT JOIN audit_unsealed u ON u.entry_id = e.id
WHERE e.org_id = @org_id AND c.entry_id IS NULL;

-- name: AuditHeadsAfter :many
SELECT * FROM audit_heads WHERE org_id = @org_id AND number > @number AND number <= @until ORDER BY number LIMIT @max_rows;

-- name: ChainedEntries :many
SELECT c.position, sqlc.embed(e) FROM audit_chain c JOIN audit_entries e ON e.id = c.entry_id
WHERE c.org_id = @org_id AND c.position > @after_position AND c.position <= @until ORDER BY c.position LIMIT @max_rows;

-- name: ReceiptSteps :one
SELECT coalesce((SELECT array_agg(DISTINCT s.node_id ORDER BY s.node_id) FROM steps s WHERE (s.org_id = @org_id) IS TRUE AND s.task_id = @task_id AND s.node_id IS NOT NULL), '{}')::text[] AS nodes,
       coalesce((SELECT array_agg(DISTINCT s.decision ->> 'version' ORDER BY s.decision ->> 'version') FROM steps s
                 WHERE (s.org_id = @org_id) IS TRUE AND s.task_id = @task_id AND s.decision ? 'version'), '{}')::text[] AS policies;

-- name: ReceiptAnswers :many
SELECT id, kind, tool, answer, answered_by, answered_at FROM inbox_items
WHERE (org_id = @org_id) IS TRUE AND task_id = @task_id AND state = 'answered' ORDER BY answered_at, id;

-- name: ReceiptEvents :many
SELECT seq, type, time, actor_kind, actor_id, attempt, payload FROM events
WHERE org_id = @org_id AND task_id = @task_id AND seq > @after_seq ORDER BY seq LIMIT @max_rows;
