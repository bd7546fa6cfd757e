-- +goose Up

CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- What agents are to know in later runs. An entry is unique in its scope by type and key.
CREATE TABLE memories (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL REFERENCES organisations (id),
    scope_kind   text COLLATE "C" NOT NULL CHECK (scope_kind IN ('organisation', 'team', 'user', 'agent', 'workspace')),
    scope_id     text COLLATE "C" NOT NULL,
    -- The id of the only user whose runs get it; empty for all who read the scope.
    only_for     text COLLATE "C" NOT NULL DEFAULT '',
    type         text COLLATE "C" NOT NULL CHECK (type IN ('preference', 'fact', 'instruction', 'selector', 'workflow', 'statistic')),
    key          text COLLATE "C" NOT NULL CHECK (char_length(key) BETWEEN 1 AND 255),
    value        jsonb NOT NULL CHECK (octet_length(value::text) <= 131072),
    -- The words of key and value, by which it is found.
    body         text NOT NULL,
    source       text NOT NULL CHECK (source IN ('person', 'agent', 'import')),
    source_user  text NOT NULL DEFAULT '',
    source_agent text COLLATE "C" NOT NULL DEFAULT '',
    source_task  text COLLATE "C" NOT NULL DEFAULT '',
    source_step  text COLLATE "C" NOT NULL DEFAULT '',
    untrusted    boolean NOT NULL DEFAULT false,
    -- The person who answers for it; empty for what an agent wrote and nobody confirmed.
    confirmed_by text NOT NULL DEFAULT '',
    confidence   double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    version      int NOT NULL DEFAULT 1,
    uses         bigint NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    used_at      timestamptz,
    expires_at   timestamptz,
    deleted_at   timestamptz,
    -- The scope is a word of it, too: so the index finds the words of a scope without reading
    -- those of all others.
    words        tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('english', body) || array_to_tsvector(ARRAY['@' || scope_kind || ':' || scope_id])) STORED,
    CHECK (NOT untrusted OR confirmed_by = ''),
    UNIQUE (org_id, scope_kind, scope_id, only_for, type, key)
);
CREATE INDEX memories_words ON memories USING gin (words);
CREATE INDEX memories_newest ON memories (org_id, updated_at DESC, id DESC);
CREATE INDEX memories_of_scope ON memories (org_id, (scope_kind || ':' || scope_id), updated_at DESC, id DESC);
CREATE INDEX memories_ending ON memories (least(expires_at, deleted_at)) WHERE expires_at IS NOT NULL OR deleted_at IS NOT NULL;

CREATE TABLE memory_versions (
    memory_id    text COLLATE "C" NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    org_id       text COLLATE "C" NOT NULL,
    version      int NOT NULL,
    value        jsonb NOT NULL,
    source       text NOT NULL,
    source_user  text NOT NULL,
    source_agent text COLLATE "C" NOT NULL,
    source_task  text COLLATE "C" NOT NULL,
    source_step  text COLLATE "C" NOT NULL,
    untrusted    boolean NOT NULL,
    confidence   double precision NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (memory_id, version)
);

-- What the run of a task was told, in this order. The texts stay where they are, so that
-- nothing is left of an entry that is purged.
CREATE TABLE memory_uses (
    org_id    text COLLATE "C" NOT NULL,
    task_id   text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    place     int NOT NULL,
    memory_id text COLLATE "C" NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    version   int NOT NULL,
    standing  boolean NOT NULL,
    PRIMARY KEY (task_id, place)
);
CREATE INDEX memory_uses_of_memory ON memory_uses (memory_id);
-- That it was decided what a task's run is told, although that may be nothing.
ALTER TABLE tasks ADD COLUMN memories_chosen boolean NOT NULL DEFAULT false;

-- Reports whether somebody sees an entry: whoever reads its scope, and of one that is for one
-- user's runs only that user. Nobody else reads what a run wrote for a user: not the owners of
-- the agent, nor administrators.
-- +goose StatementBegin
CREATE FUNCTION memory_seen(of_org text, of_kind text, of_id text, only_user text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT scope_seen(of_org, of_kind, of_id, who, administrator)
        AND (only_user = '' OR EXISTS (SELECT 1 FROM users u WHERE u.org_id = of_org AND u.id = only_user AND u.name = who))
$$;
-- +goose StatementEnd

-- Reports whether somebody changes an entry: whoever writes in its scope, and of one that is
-- for one user's runs that user.
-- +goose StatementBegin
CREATE FUNCTION memory_writable(of_org text, of_kind text, of_id text, only_user text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT memory_seen(of_org, of_kind, of_id, only_user, who, administrator)
        AND (only_user <> '' OR scope_writable(of_org, of_kind, of_id, who, administrator))
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION memory_writable(text, text, text, text, text, boolean);
DROP FUNCTION memory_seen(text, text, text, text, text, boolean);
ALTER TABLE tasks DROP COLUMN memories_chosen;
DROP TABLE memory_uses, memory_versions, memories;
