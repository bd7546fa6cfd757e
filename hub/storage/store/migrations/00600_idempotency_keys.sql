-- +goose Up
-- Idempotency keys of calls: a call that is repeated with its key gets the first response.
CREATE TABLE idempotency_keys (
    id             text COLLATE "C" PRIMARY KEY,
    org_id         text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- The token or session that the call came with.
    caller         text COLLATE "C" NOT NULL,
    procedure      text NOT NULL,
    -- Of the key itself only a digest is kept, and the digest of the request is keyed with
    -- it: a request may have a password.
    key_hash       bytea NOT NULL,
    request_digest bytea NOT NULL,
    state          text NOT NULL DEFAULT 'in_progress' CHECK (state IN ('in_progress', 'done', 'unknown')),
    -- The call that works on it, and until when that counts as alive.
    owner          text COLLATE "C" NOT NULL,
    owned_until    timestamptz NOT NULL,
    -- The call has committed something.
    touched        boolean NOT NULL DEFAULT false,
    -- The response: it may have a secret that is shown once.
    sealed         bytea,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (org_id, caller, procedure, key_hash),
    CHECK ((state = 'done') = (sealed IS NOT NULL))
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Records, in the transaction of a call, that the call has committed something, if the
-- transaction has written or locked anything. It fails if another call has taken the key
-- over, which rolls the transaction back.
-- +goose StatementBegin
CREATE FUNCTION touch_idempotency_key(key_id text, call text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL THEN
        RETURN;
    END IF;
    UPDATE idempotency_keys SET touched = true WHERE id = key_id AND owner = call;
    IF NOT FOUND AND EXISTS (SELECT 1 FROM idempotency_keys WHERE id = key_id) THEN
        RAISE EXCEPTION 'another call has taken over the idempotency key';
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION touch_idempotency_key(text, text);
DROP TABLE idempotency_keys;
