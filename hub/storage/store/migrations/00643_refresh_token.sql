-- +goose Up
-- The refresh token that the server returned last, for servers that return another one with
-- each access token; NULL for the one of the value.
ALTER TABLE egress_credentials
    ADD COLUMN refresh_sealed bytea,
    ADD COLUMN refreshed_at   timestamptz,
    ADD CHECK ((refresh_sealed IS NULL) = (refreshed_at IS NULL));

-- +goose Down
ALTER TABLE egress_credentials
    DROP COLUMN refresh_sealed,
    DROP COLUMN refreshed_at;
