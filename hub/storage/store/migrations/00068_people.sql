-- +goose Up

CREATE TABLE teams (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('viewer', 'basic', 'advanced', 'admin')),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, name)
);

CREATE TABLE team_members (
    org_id   text COLLATE "C" NOT NULL REFERENCES organisations (id),
    team_id  text COLLATE "C" NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    user_id  text COLLATE "C" NOT NULL REFERENCES users (id),
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (team_id, user_id)
);
CREATE INDEX team_members_of_user ON team_members (user_id);

-- G1: a user has the highest of their own role and those of their teams.
-- +goose StatementBegin
CREATE FUNCTION effective_role(of_user text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT (ARRAY['viewer', 'basic', 'advanced', 'admin'])[max(array_position(ARRAY['viewer', 'basic', 'advanced', 'admin'], r.role))]
    FROM (
        SELECT u.role FROM users u WHERE u.id = of_user COLLATE "C"
        UNION ALL
        SELECT t.role FROM team_members m JOIN teams t ON t.id = m.team_id WHERE m.user_id = of_user COLLATE "C"
    ) r
$$;
-- +goose StatementEnd

-- Who made a token, and when it was last used, to the hour.
ALTER TABLE api_tokens ADD COLUMN created_by text NOT NULL DEFAULT '', ADD COLUMN used_at timestamptz;
CREATE INDEX api_tokens_of_org ON api_tokens (org_id, created_at DESC) WHERE revoked_at IS NULL;

-- +goose Down

DROP INDEX api_tokens_of_org;
ALTER TABLE api_tokens DROP COLUMN created_by, DROP COLUMN used_at;
DROP FUNCTION effective_role(text);
DROP TABLE team_members, teams;
