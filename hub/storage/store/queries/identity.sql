-- name: CreateOrganisation :one
INSERT INTO organisations (id, name) VALUES (@id, @name)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING *;

-- name: CreateUser :one
-- An existing user is not changed.
INSERT INTO users (id, org_id, name, role) VALUES (@id, @org_id, @name, @role)
ON CONFLICT (org_id, name) DO UPDATE SET name = excluded.name
RETURNING *;

-- name: CreateToken :exec
INSERT INTO api_tokens (id, org_id, kind, user_id, name, hash, scope, created_by, expires_at)
VALUES (@id, @org_id, @kind, sqlc.narg(user_id), @name, @hash, @scope, @created_by, sqlc.narg(expires_at));

-- name: RevokeTokens :exec
-- Ends every token of that kind and name.
UPDATE api_tokens SET revoked_at = now()
WHERE org_id = @org_id AND kind = @kind AND name = @name AND revoked_at IS NULL;

-- name: TokenByHash :one
-- Returns a token that may be used now, with its user's role.
SELECT t.id, t.org_id, t.kind, t.name, t.scope, t.expires_at, coalesce(u.id, '') AS user_id, coalesce(u.name, '') AS user_name,
       coalesce(effective_role(u.id), '')::text AS role, (t.used_at IS NULL OR t.used_at < now() - @touch_after::interval)::boolean AS stale,
       t.local
FROM api_tokens t LEFT JOIN users u ON u.id = t.user_id
WHERE t.hash = @hash AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
  AND u.disabled_at IS NULL AND young(t) AND vouched(t.org_id, u.vouched_at, @login_within);

-- name: LoadSecret :one
SELECT sealed FROM cluster_secrets WHERE name = @name;

-- name: CreateSecret :execrows
INSERT INTO cluster_secrets (name, sealed) VALUES (@name, @sealed) ON CONFLICT (name) DO NOTHING;

-- name: InsertOrganisation :one
-- Returns no row if the name is taken.
INSERT INTO organisations (id, name) VALUES (@id, @name) ON CONFLICT (name) DO NOTHING RETURNING *;

-- name: OrganisationByID :one
SELECT * FROM organisations WHERE id = @id;

-- name: SetOrganisationLimits :one
-- NULL fields are not changed; a negative undo window means the hub's own, and a negative
-- time of checkpoints the default.
UPDATE organisations SET
    jail_cpu_millis = coalesce(sqlc.narg(jail_cpu_millis), jail_cpu_millis),
    jail_memory_bytes = coalesce(sqlc.narg(jail_memory_bytes), jail_memory_bytes),
    jail_pids = coalesce(sqlc.narg(jail_pids), jail_pids),
    jail_workspace_bytes = coalesce(sqlc.narg(jail_workspace_bytes), jail_workspace_bytes),
    undo_window_seconds = CASE WHEN sqlc.narg(undo_window_seconds)::bigint < 0 THEN NULL
                               ELSE coalesce(sqlc.narg(undo_window_seconds), undo_window_seconds) END,
    checkpoint_seconds = CASE WHEN sqlc.narg(checkpoint_seconds)::bigint < 0 THEN NULL
                              ELSE coalesce(sqlc.narg(checkpoint_seconds), checkpoint_seconds) END
WHERE name = @name
RETURNING *;

-- name: ListOrganisations :many
-- A page by name, after a keyset position, or the one of a name that is not empty.
SELECT sqlc.embed(o), (SELECT count(*) FROM users u WHERE u.org_id = o.id)::bigint AS users,
       (SELECT count(*) FROM tasks t WHERE t.org_id = o.id AND t.finished_at IS NULL)::bigint AS tasks,
       (SELECT count(*) FROM nodes n WHERE n.org_id = o.id AND n.revoked_at IS NULL)::bigint AS nodes
FROM organisations o WHERE (@name::text = '' OR o.name = @name::text) AND o.name > @after_name::text ORDER BY o.name LIMIT @max_rows;
