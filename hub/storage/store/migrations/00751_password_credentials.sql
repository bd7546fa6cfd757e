-- +goose Up

-- A password is typed into pages by a task's browser and inserted into no request.
ALTER TABLE egress_credentials
    DROP CONSTRAINT egress_credentials_kind_check,
    ADD CONSTRAINT egress_credentials_kind_check CHECK (kind IN ('bearer', 'basic', 'header', 'query', 'github_app', 'gitlab', 'oauth2_client', 'aws_sigv4', 'password'));

-- +goose Down
DELETE FROM egress_credentials WHERE kind = 'password';
ALTER TABLE egress_credentials
    DROP CONSTRAINT egress_credentials_kind_check,
    ADD CONSTRAINT egress_credentials_kind_check CHECK (kind IN ('bearer', 'basic', 'header', 'query', 'github_app', 'gitlab', 'oauth2_client', 'aws_sigv4'));
