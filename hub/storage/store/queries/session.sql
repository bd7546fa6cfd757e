-- name: CreateSession :one
INSERT INTO sessions (id, org_id, user_id, token_id, hash, method, scope, address, user_agent, expires_at, oidc_sid, signed_in_at)
VALUES (@id, @org_id, @user_id, sqlc.narg(token_id), @hash, @method, @scope, @address, @user_agent, @expires_at, @oidc_sid,
    CASE WHEN @signed_in::boolean THEN now() END)
RETURNING *;

-- name: SessionByHash :one
-- Returns a session that may be used now, with its user's role.
SELECT s.id, s.org_id, s.user_id, s.token_id, s.scope, s.expires_at, s.signed_in_at, u.name AS user_name, effective_role(u.id)::text AS role,
       (s.seen_at < now() - @touch_after::interval)::boolean AS stale
FROM sessions s JOIN users u ON u.id = s.user_id LEFT JOIN api_tokens t ON t.id = s.token_id
WHERE s.hash = @hash AND s.ended_at IS NULL AND s.expires_at > now() AND s.seen_at > now() - @idle::interval
  AND u.disabled_at IS NULL AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
  AND (t.id IS NULL OR young(t)) AND vouched(s.org_id, u.vouched_at, @login_within);

-- name: TouchSession :exec
UPDATE sessions SET seen_at = now() WHERE id = @id AND ended_at IS NULL;

-- name: GetSession :one
SELECT sqlc.embed(s), u.name AS user_name, effective_role(u.id)::text AS role, o.name AS organisation_name
FROM sessions s JOIN users u ON u.id = s.user_id JOIN organisations o ON o.id = s.org_id
WHERE s.org_id = @org_id AND s.id = @id;

-- name: ListSessions :many
-- Newest first, after a keyset position.
SELECT sqlc.embed(s), u.name AS user_name, effective_role(u.id)::text AS role, o.name AS organisation_name
FROM sessions s JOIN users u ON u.id = s.user_id JOIN organisations o ON o.id = s.org_id
WHERE s.org_id = @org_id AND s.user_id = @user_id AND s.ended_at IS NULL AND s.expires_at > now() AND s.seen_at > now() - @idle::interval
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (s.created_at, s.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY s.created_at DESC, s.id DESC LIMIT @max_rows;

-- name: EndSession :execrows
UPDATE sessions SET ended_at = now() WHERE org_id = @org_id AND user_id = @user_id AND id = @id AND ended_at IS NULL;

-- name: EndSessions :execrows
-- Ends all of a user's sessions but one; '' ends all of them.
UPDATE sessions SET ended_at = now() WHERE org_id = @org_id AND user_id = @user_id AND id <> @keep AND ended_at IS NULL;

-- name: EndSessionsOfProvider :many
-- Ends the sessions that a person's logout at the identity provider ends: those
-- of one login there, or, without its sid, all of the person's. A session whose
-- sid is not known, or that was created with a code of another session, may
-- belong to that login: it ends too if the person is named.
UPDATE sessions s SET ended_at = now() FROM users u
WHERE u.id = s.user_id AND u.org_id = @org_id AND u.oidc_issuer = @issuer AND u.oidc_subject <> ''
  AND (@subject::text = '' OR u.oidc_subject = @subject::text)
  AND (CASE WHEN @sid::text = '' THEN @subject::text <> ''
       ELSE s.oidc_sid = @sid::text OR (@subject::text <> '' AND s.oidc_sid = '' AND s.method IN ('oidc', 'code') AND s.token_id IS NULL) END)
  AND s.org_id = @org_id AND s.ended_at IS NULL AND s.created_at <= @made_before::timestamptz
RETURNING s.id, s.user_id;

-- name: PruneSessions :exec
DELETE FROM sessions WHERE expires_at < now() - @keep::interval;

-- name: CreateLoginCode :exec
INSERT INTO login_codes (hash, org_id, user_id, token_id, scope, expires_at, on_machine)
VALUES (@hash, @org_id, @user_id, sqlc.narg(token_id), @scope, @expires_at, @on_machine);

-- name: TakeLoginCode :one
-- It is valid while it is young, its user may log in, and its token may be
-- used.
WITH used AS (DELETE FROM login_codes l WHERE l.hash = @hash RETURNING org_id, user_id, token_id, scope, expires_at, on_machine)
SELECT used.org_id, used.user_id, u.name AS user_name, used.token_id, used.scope, used.on_machine,
    (used.expires_at > now() AND u.disabled_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM api_tokens t WHERE t.id = used.token_id AND (t.revoked_at IS NOT NULL OR t.expires_at <= now())
    ))::boolean AS good
FROM used JOIN users u ON u.id = used.user_id;

-- name: PruneLoginCodes :exec
DELETE FROM login_codes WHERE expires_at < now();

-- name: CountLogin :one
-- Counts an attempt, from 1 again after each period.
INSERT INTO login_attempts AS a (key, attempts, since) VALUES (@key, 1, now())
ON CONFLICT (key) DO UPDATE SET
    attempts = CASE WHEN a.since <= now() - @span::interval THEN 1 ELSE a.attempts + 1 END,
    since    = CASE WHEN a.since <= now() - @span::interval THEN now() ELSE a.since END
RETURNING attempts, since, now()::timestamptz AS clock;

-- name: ForgiveLogin :exec
-- Removes an attempt that succeeded from the count.
UPDATE login_attempts SET attempts = greatest(attempts - 1, 0) WHERE key = @key;

-- name: ForgetLogins :exec
DELETE FROM login_attempts WHERE key = @key;

-- name: PruneLogins :exec
DELETE FROM login_attempts WHERE since < now() - @span::interval;

-- name: UserForLogin :one
SELECT sqlc.embed(u) FROM users u JOIN organisations o ON o.id = u.org_id WHERE o.name = @organisation AND u.name = @name;

-- name: OrganisationByName :one
SELECT * FROM organisations WHERE name = @name;

-- name: GetOrganisation :one
SELECT * FROM organisations WHERE id = @id;

-- name: SetPassword :execrows
UPDATE users SET password_hash = @password_hash WHERE org_id = @org_id AND id = @id;
