-- +goose Up
-- A program that has not got the response of a refresh may repeat it once within a minute,
-- unless the tokens of that response were used.
ALTER TABLE oauth_refresh_tokens
    -- The refresh token that was given for this one.
    ADD COLUMN successor bytea,
    ADD COLUMN retried boolean NOT NULL DEFAULT false;

-- Whether a used refresh token may be used once more.
-- +goose StatementBegin
CREATE FUNCTION refresh_repeatable(r oauth_refresh_tokens, grace interval) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT r.used_at > now() - grace AND NOT r.retried
       AND EXISTS (SELECT 1 FROM oauth_refresh_tokens n WHERE n.hash = r.successor AND n.used_at IS NULL)
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION refresh_repeatable(oauth_refresh_tokens, interval);
ALTER TABLE oauth_refresh_tokens DROP COLUMN retried, DROP COLUMN successor;
