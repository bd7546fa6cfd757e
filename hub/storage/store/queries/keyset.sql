-- name: CreateKeyset :exec
INSERT INTO keysets (version, keys) VALUES (1, @keys) ON CONFLICT (single) DO NOTHING;

-- name: GetKeyset :one
SELECT * FROM keysets;

-- name: KeysetVersion :one
-- The digest distinguishes a keyset that was encrypted with another root key,
-- which keeps its version.
SELECT version, sha256(keys)::bytea AS digest FROM keysets;

-- name: LockKeyset :one
SELECT *, clock_timestamp()::timestamptz AS now FROM keysets FOR UPDATE;

-- name: RotateKeyset :one
UPDATE keysets SET version = version + 1, keys = @keys, changed_at = clock_timestamp(), rotating_since = clock_timestamp(),
    rotated_by = @rotated_by, rotated_org = @rotated_org
RETURNING *;

-- name: RetireKeys :exec
UPDATE keysets SET version = version + 1, keys = @keys, changed_at = clock_timestamp(), rotating_since = NULL;

-- name: RewrapKeyset :exec
-- The same keys, encrypted with another root key: for hubs their age is
-- unchanged.
UPDATE keysets SET keys = @keys;

-- name: BlocksOf :one
-- How many blocks of 8 KiB a table has now.
SELECT (pg_relation_size(to_regclass(@relation::text)) / current_setting('block_size')::bigint)::bigint;
