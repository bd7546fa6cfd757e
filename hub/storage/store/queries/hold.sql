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
-- Active ones first, then newest first, after a keyset position.
SELECT * FROM holds WHERE org_id = @org_id AND (@released::boolean OR released_at IS NULL)
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (released_at IS NULL, created_at, id) < (@before_standing::boolean, sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY (released_at IS NULL) DESC, created_at DESC, id DESC LIMIT @max_rows;

-- name: FindHolds :many
SELECT id, (id = @ref)::boolean AS exact FROM holds WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: GetHold :one
SELECT * FROM holds WHERE org_id = @org_id AND id = @id;

-- name: ReleaseHold :execrows
UPDATE holds SET released_at = now(), released_by = @released_by
WHERE org_id = @org_id AND id = @id AND released_at IS NULL;
