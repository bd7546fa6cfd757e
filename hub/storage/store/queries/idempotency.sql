-- name: ClaimIdempotencyKey :one
-- Claims a key for a call: a new one, one that has expired, or one whose call died before
-- it committed anything. No row if it is claimed by another call or has a response.
INSERT INTO idempotency_keys AS k (id, org_id, caller, procedure, key_hash, request_digest, owner, owned_until)
VALUES (@id, @org_id, @caller, @procedure, @key_hash, @request_digest, @owner, clock_timestamp() + @lease::interval)
ON CONFLICT (org_id, caller, procedure, key_hash) DO UPDATE
SET owner = excluded.owner, owned_until = excluded.owned_until, request_digest = excluded.request_digest, state = 'in_progress', touched = false,
    sealed = NULL, created_at = excluded.created_at
WHERE k.created_at < clock_timestamp() - @keep::interval
   OR k.state = 'in_progress' AND NOT k.touched AND k.owned_until < clock_timestamp() AND k.request_digest = excluded.request_digest
RETURNING id;

-- name: GetIdempotencyKey :one
SELECT id, request_digest, state, touched, sealed, (owned_until < clock_timestamp())::boolean AS abandoned FROM idempotency_keys
WHERE org_id = @org_id AND caller = @caller AND procedure = @procedure AND key_hash = @key_hash;

-- name: KeepIdempotencyKey :execrows
-- Extends the time for which a call counts as alive.
UPDATE idempotency_keys SET owned_until = clock_timestamp() + @lease::interval WHERE org_id = @org_id AND id = @id AND owner = @owner;

-- name: TouchIdempotencyKey :exec
SELECT touch_idempotency_key(@id, @owner);

-- name: MarkIdempotencyKey :execrows
-- Records that a call is about to change something outside the database, or that it was
-- refused and has changed nothing. No row if another call has taken the key over.
UPDATE idempotency_keys SET touched = @touched WHERE id = @id AND owner = @owner;

-- name: FinishIdempotencyKey :execrows
UPDATE idempotency_keys SET state = 'done', sealed = @sealed WHERE org_id = @org_id AND id = @id AND owner = @owner AND state = 'in_progress';

-- name: ReleaseIdempotencyKey :execrows
-- Frees the key of a call that failed, if the call has committed nothing.
DELETE FROM idempotency_keys WHERE org_id = @org_id AND id = @id AND owner = @owner AND state = 'in_progress' AND NOT touched;

-- name: DoubtIdempotencyKey :execrows
-- Records that nobody knows what a call has done.
UPDATE idempotency_keys SET state = 'unknown' WHERE org_id = @org_id AND id = @id AND owner = @owner AND state = 'in_progress';

-- name: DeleteIdempotencyKeys :exec
DELETE FROM idempotency_keys WHERE created_at < clock_timestamp() - @keep::interval;
