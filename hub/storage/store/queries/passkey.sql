-- name: CreatePasskey :one
INSERT INTO passkeys (id, org_id, user_id, name, relying_party, credential_id, public_key, record)
VALUES (@id, @org_id, @user_id, @name, @relying_party, @credential_id, @public_key, @record)
ON CONFLICT (credential_id) DO NOTHING RETURNING *;

-- name: ListPasskeys :many
-- Of a user, oldest first.
SELECT sqlc.embed(p), u.name AS user_name FROM passkeys p JOIN users u ON u.id = p.user_id
WHERE p.org_id = @org_id AND p.user_id = @user_id ORDER BY p.created_at, p.id;

-- name: LockUser :exec
-- Makes changes of a user's passkeys wait for each other.
SELECT id FROM users WHERE org_id = @org_id AND id = @user_id FOR NO KEY UPDATE;

-- name: GetPasskey :one
SELECT sqlc.embed(p), u.name AS user_name FROM passkeys p JOIN users u ON u.id = p.user_id WHERE p.org_id = @org_id AND p.id = @id;

-- name: PasskeyOwner :one
-- The user whose passkey it is, if they may log in.
SELECT u.id, u.org_id, u.name, p.id AS passkey_id FROM passkeys p JOIN users u ON u.id = p.user_id
WHERE p.credential_id = @credential_id AND p.user_id = @user_id AND p.relying_party = @relying_party AND u.disabled_at IS NULL;

-- name: RenamePasskey :execrows
UPDATE passkeys SET name = @name WHERE org_id = @org_id AND user_id = @user_id AND id = @id;

-- name: UsePasskey :execrows
-- Stores the counter and flags of a use.
UPDATE passkeys SET record = @record, used_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: DeletePasskey :execrows
DELETE FROM passkeys WHERE org_id = @org_id AND id = @id;

-- name: CreatePasskeyChallenge :exec
INSERT INTO passkey_challenges (id, purpose, org_id, user_id, session, statement, expires_at)
VALUES (@id, @purpose, sqlc.narg(org_id), sqlc.narg(user_id), @session, @statement, clock_timestamp() + @lasts::interval);

-- name: TakePasskeyChallenge :one
-- Deletes it: it is used once, also by who must not use it.
DELETE FROM passkey_challenges WHERE id = @id
RETURNING purpose, org_id, user_id, session, statement, (expires_at > clock_timestamp())::boolean AS good;

-- name: PrunePasskeyChallenges :exec
DELETE FROM passkey_challenges WHERE expires_at < clock_timestamp();

-- name: SetDangerousApprovals :exec
UPDATE organisations SET dangerous_approvals = @dangerous_approvals WHERE id = @id;
