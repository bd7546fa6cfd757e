-- name: CreateOAuthClient :execrows
-- Creates no row if there are too many already.
INSERT INTO oauth_clients (id, name, redirect_uris)
SELECT @id, @name, @redirect_uris::text[] WHERE (SELECT count(*) FROM oauth_clients) < @most::bigint;

-- name: DeleteOAuthClients :exec
-- Deletes those that nobody has connected, and those whose last connection is long over.
DELETE FROM oauth_clients c
WHERE c.used_at IS NULL AND c.created_at < now() - @unused::interval
   OR c.used_at < now() - @idle::interval
      AND NOT EXISTS (SELECT 1 FROM oauth_refresh_tokens r WHERE r.client_id = c.id AND r.created_at > now() - @idle::interval);

-- name: EvictOAuthClient :exec
-- Deletes the oldest program that nobody has connected.
DELETE FROM oauth_clients WHERE id = (SELECT id FROM oauth_clients WHERE used_at IS NULL ORDER BY created_at LIMIT 1);

-- name: GetOAuthClient :one
SELECT * FROM oauth_clients WHERE id = @id;

-- name: TouchOAuthClient :exec
UPDATE oauth_clients SET used_at = now() WHERE id = @id;

-- name: CreateOAuthCode :exec
INSERT INTO oauth_codes (hash, org_id, user_id, user_name, client_id, redirect_uri, resource, challenge, scope)
VALUES (@hash, @org_id, @user_id, @user_name, @client_id, @redirect_uri, @resource, @challenge, @scope);

-- name: GetOAuthCode :one
SELECT * FROM oauth_codes WHERE hash = @hash;

-- name: UseOAuthCode :execrows
UPDATE oauth_codes SET used_at = now() WHERE hash = @hash AND used_at IS NULL;

-- name: SetOAuthCodeToken :execrows
UPDATE oauth_codes SET token_id = @token_id WHERE hash = @hash;

-- name: DeleteOAuthCode :execrows
-- Deletes a code that has no token yet.
DELETE FROM oauth_codes WHERE hash = @hash AND token_id IS NULL;

-- name: DeleteOAuthCodes :exec
DELETE FROM oauth_codes WHERE created_at < now() - @age::interval;

-- name: CreateOAuthRefreshToken :exec
INSERT INTO oauth_refresh_tokens (hash, org_id, user_id, token_id, client_id, resource, scope)
VALUES (@hash, @org_id, @user_id, @token_id, @client_id, @resource, @scope);

-- name: GetOAuthRefreshToken :one
SELECT * FROM oauth_refresh_tokens WHERE hash = @hash;

-- name: LockOAuthRefreshToken :one
-- Calls that use one refresh token at the same time take turns.
SELECT * FROM oauth_refresh_tokens WHERE hash = @hash FOR UPDATE;

-- name: OAuthClientOfToken :one
SELECT client_id FROM oauth_refresh_tokens WHERE org_id = @org_id AND token_id = @token_id LIMIT 1;

-- name: UseOAuthRefreshToken :execrows
-- Uses a refresh token: one that is unused, or one that may be used once more. The caller has
-- locked it.
UPDATE oauth_refresh_tokens r SET used_at = coalesce(r.used_at, now()), retried = (r.used_at IS NOT NULL), successor = @successor::bytea
WHERE r.hash = @hash AND (r.used_at IS NULL OR refresh_repeatable(r, @grace::interval));

-- name: OAuthRefreshRepeatable :one
-- Whether a used refresh token may be used once more.
SELECT refresh_repeatable(r, @grace::interval)::boolean FROM oauth_refresh_tokens r WHERE r.hash = @hash;

-- name: SpendOAuthRefreshToken :exec
UPDATE oauth_refresh_tokens SET used_at = now() WHERE hash = @hash AND used_at IS NULL;

-- name: DeleteOAuthRefreshTokens :exec
DELETE FROM oauth_refresh_tokens WHERE created_at < now() - @age::interval;

-- name: RenewToken :execrows
-- Gives a token another secret and a later end, if it may be used (see TokenByHash) or has
-- only expired.
UPDATE api_tokens t SET hash = @hash, expires_at = @expires_at::timestamptz
FROM users u
WHERE t.org_id = @org_id AND t.id = @id AND t.user_id = @user_id AND u.id = t.user_id AND t.revoked_at IS NULL
  AND u.disabled_at IS NULL AND young(t) AND vouched(t.org_id, u.vouched_at, @login_within);
