-- name: InsertUser :one
-- Returns no row if the name is taken.
INSERT INTO users (id, org_id, name, role) VALUES (@id, @org_id, @name, @role) ON CONFLICT (org_id, name) DO NOTHING RETURNING *;

-- name: GetUser :one
SELECT sqlc.embed(u), effective_role(u.id)::text AS effective_role,
       (SELECT array_agg(t.name ORDER BY t.name) FROM team_members m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id)::text[] AS teams
FROM users u WHERE u.org_id = @org_id AND u.id = @id;

-- name: ListUsers :many
-- A page by name, after one.
SELECT sqlc.embed(u), effective_role(u.id)::text AS effective_role,
       (SELECT array_agg(t.name ORDER BY t.name) FROM team_members m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id)::text[] AS teams
FROM users u WHERE u.org_id = @org_id AND u.name > @after_name ORDER BY u.name LIMIT @max_rows;

-- name: FindUsers :many
SELECT id, (id = @ref OR name = @ref)::boolean AS exact FROM users WHERE org_id = @org_id AND (id = @ref OR name = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: UpdateUser :one
UPDATE users SET role = @role, disabled_at = CASE WHEN @disabled::boolean THEN coalesce(disabled_at, now()) END
WHERE org_id = @org_id AND id = @id RETURNING *;

-- name: LockPeople :exec
-- Makes changes of an organisation's people wait for each other.
SELECT id FROM organisations WHERE id = @org_id FOR NO KEY UPDATE;

-- name: CountAdmins :one
SELECT count(*) FROM users WHERE org_id = @org_id AND disabled_at IS NULL AND effective_role(id) = 'admin';

-- name: CreateTeam :one
-- Returns no row if the name is taken.
INSERT INTO teams (id, org_id, name, role) VALUES (@id, @org_id, @name, @role) ON CONFLICT (org_id, name) DO NOTHING RETURNING *;

-- name: ListTeams :many
SELECT sqlc.embed(t),
       (SELECT array_agg(u.name ORDER BY u.name) FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = t.id)::text[] AS members
FROM teams t WHERE t.org_id = @org_id AND t.name > @after_name::text ORDER BY t.name LIMIT @max_rows;

-- name: GetTeam :one
SELECT sqlc.embed(t),
       (SELECT array_agg(u.name ORDER BY u.name) FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = t.id)::text[] AS members
FROM teams t WHERE t.org_id = @org_id AND t.id = @id;

-- name: FindTeams :many
SELECT id, (id = @ref OR name = @ref)::boolean AS exact FROM teams WHERE org_id = @org_id AND (id = @ref OR name = @ref OR id LIKE @prefix)
ORDER BY exact DESC, id LIMIT 2;

-- name: UpdateTeam :execrows
UPDATE teams SET role = @role WHERE org_id = @org_id AND id = @id;

-- name: DeleteTeam :execrows
DELETE FROM teams WHERE org_id = @org_id AND id = @id;

-- name: AddTeamMember :execrows
INSERT INTO team_members (org_id, team_id, user_id) VALUES (@org_id, @team_id, @user_id) ON CONFLICT DO NOTHING;

-- name: RemoveTeamMember :execrows
DELETE FROM team_members WHERE org_id = @org_id AND team_id = @team_id AND user_id = @user_id;

-- name: ListTokens :many
-- Newest first, after a keyset position; '' for all users, or for every token.
SELECT t.id, t.kind, t.name, t.scope, t.created_at, t.created_by, t.expires_at, t.used_at, coalesce(u.name, '') AS user_name
FROM api_tokens t LEFT JOIN users u ON u.id = t.user_id
WHERE t.org_id = @org_id AND t.revoked_at IS NULL AND (@user_id::text = '' OR t.user_id = @user_id)
  AND (@id::text = '' OR t.id = @id)
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (t.created_at, t.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY t.created_at DESC, t.id DESC LIMIT @max_rows;

-- name: FindTokens :many
-- '' for all users.
SELECT id, (id = @ref)::boolean AS exact FROM api_tokens
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix) AND revoked_at IS NULL AND (@user_id::text = '' OR user_id = @user_id)
ORDER BY exact DESC, id LIMIT 2;

-- name: RevokeToken :one
UPDATE api_tokens SET revoked_at = now() WHERE org_id = @org_id AND id = @id AND revoked_at IS NULL RETURNING name, kind;

-- name: TouchToken :exec
UPDATE api_tokens SET used_at = now() WHERE id = @id;

-- name: UserOfOIDC :one
SELECT * FROM users WHERE org_id = @org_id AND oidc_issuer = @oidc_issuer AND oidc_subject = @oidc_subject AND oidc_subject <> '';

-- name: InsertOIDCUser :one
-- Returns no row if the name is taken.
INSERT INTO users (id, org_id, name, role, oidc_issuer, oidc_subject, vouched_at) VALUES (@id, @org_id, @name, @role, @oidc_issuer, @oidc_subject, now())
ON CONFLICT (org_id, name) DO NOTHING RETURNING *;

-- name: VouchForUser :exec
-- Their identity provider reports that they still exist.
UPDATE users SET vouched_at = now() WHERE org_id = @org_id AND id = @id AND oidc_subject <> '';

-- name: RevokeTokensOfUser :execrows
UPDATE api_tokens SET revoked_at = now() WHERE org_id = @org_id AND user_id = @user_id AND revoked_at IS NULL AND NOT local;

-- name: GetTokenLimits :one
SELECT max_token_ttl, login_within FROM organisations WHERE id = @org_id;

-- name: SetTokenLimits :exec
UPDATE organisations SET max_token_ttl = sqlc.narg(max_token_ttl), login_within = sqlc.narg(login_within) WHERE id = @org_id;

-- name: RoleOfUser :one
-- Empty for a disabled user.
SELECT (CASE WHEN disabled_at IS NULL THEN effective_role(id) ELSE '' END)::text AS role FROM users WHERE org_id = @org_id AND name = @name;

-- name: IsTeamMember :one
SELECT EXISTS (SELECT 1 FROM team_members m JOIN users u ON u.id = m.user_id
               WHERE m.org_id = @org_id AND m.team_id = @team_id AND u.name = @user_name)::boolean;

-- name: SetTasksShared :exec
UPDATE organisations SET tasks_shared = @shared WHERE id = @id;
