-- name: CreateHold :one
-- Returns no row if one is active already.
INSERT INTO holds (id, org_id, scope, object_id, held_by, reason)
VALUES (@id, @org_id, @scope, @object_id, @held_by, @reason)
ON CONFLICT (org_id, scope, object_id) WHERE released_at IS NULL DO NOTHING
RETURNING *;

-- name: StandingHold :one
SELECT * FROM holds WHERE org_id = @org_id AND scope = @scope AND object_id = @object_id AND released_at IS NULL;

-- name: StandingHolds :many
SELECT * FROM holds WHERE org_id = @org_id AND released_at IS NULL ORDER BY created_at, id;

-- name: ListHolds :many
-- Active ones first, then newest first, after a keyset position: those on what somebody
-- sees.
SELECT h.* FROM holds h WHERE h.org_id = @org_id AND (@released::boolean OR h.released_at IS NULL)
  AND (@sees_all::boolean OR CASE h.scope
       WHEN 'agent' THEN agent_seen(h.object_id, @viewer::text)
       WHEN 'trigger' THEN NOT EXISTS (SELECT 1 FROM triggers g WHERE g.id = h.object_id AND g.org_id = @org_id AND NOT agent_seen(g.agent_id, @viewer::text))
       WHEN 'lineage' THEN EXISTS (SELECT 1 FROM tasks t WHERE t.org_id = @org_id AND t.lineage_id = h.object_id
                                   AND task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
       ELSE true END)
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (h.released_at IS NULL, h.created_at, h.id) < (@before_standing::boolean, sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY (h.released_at IS NULL) DESC, h.created_at DESC, h.id DESC LIMIT @max_rows;

-- name: FindHolds :many
SELECT id, (id = @ref)::boolean AS exact FROM holds WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: GetHold :one
SELECT * FROM holds WHERE org_id = @org_id AND id = @id;

-- name: ReleaseHold :execrows
UPDATE holds SET released_at = now(), released_by = @released_by
WHERE org_id = @org_id AND id = @id AND released_at IS NULL;
