-- +goose Up

-- Similar words are found by their trigrams.
CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- A collection of documents. Who reads it and who changes it is decided by its scope:
-- scope_seen and scope_writable.
CREATE TABLE knowledge_collections (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL REFERENCES organisations (id),
    scope_kind  text NOT NULL CHECK (scope_kind IN ('organisation', 'team', 'user', 'agent', 'workspace')),
    scope_id    text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    description text NOT NULL DEFAULT '',
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, scope_kind, scope_id, name)
);

-- Where documents of a collection come from.
CREATE TABLE knowledge_sources (
    id            text COLLATE "C" PRIMARY KEY,
    org_id        text COLLATE "C" NOT NULL,
    collection_id text COLLATE "C" NOT NULL REFERENCES knowledge_collections (id) ON DELETE CASCADE,
    kind          text NOT NULL CHECK (kind IN ('upload', 'workspace', 'node', 'git', 'web')),
    -- Of a workspace its agent, of a folder of a machine its node; otherwise empty.
    agent_id      text COLLATE "C" NOT NULL DEFAULT '' CHECK ((agent_id <> '') = (kind = 'workspace')),
    node_id       text COLLATE "C" NOT NULL DEFAULT '' CHECK (node_id <> '' OR kind <> 'node' AND jail_id = ''),
    -- Of a task's workspace its jail, on the node; empty for the agent's.
    jail_id       text COLLATE "C" NOT NULL DEFAULT '' CHECK (jail_id = '' OR kind = 'workspace'),
    -- The folder, of a repository the folder in it.
    path          text NOT NULL DEFAULT '',
    url           text NOT NULL DEFAULT '' CHECK ((url <> '') = (kind IN ('git', 'web'))),
    -- Of a repository.
    revision      text NOT NULL DEFAULT '',
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    synced_at     timestamptz,
    -- What went wrong or was left out when it was read last; empty for nothing.
    error         text NOT NULL DEFAULT '',
    note          text NOT NULL DEFAULT ''
);
CREATE INDEX knowledge_sources_of_collection ON knowledge_sources (collection_id, created_at);
-- Uploads of a collection are in one source.
CREATE UNIQUE INDEX knowledge_sources_one_upload ON knowledge_sources (collection_id) WHERE kind = 'upload';

-- Files that people uploaded, as they were.
CREATE TABLE knowledge_uploads (
    org_id    text COLLATE "C" NOT NULL,
    source_id text COLLATE "C" NOT NULL REFERENCES knowledge_sources (id) ON DELETE CASCADE,
    path      text COLLATE "C" NOT NULL,
    content   bytea NOT NULL CHECK (octet_length(content) <= 16777216),
    added_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source_id, path)
);
CREATE INDEX knowledge_uploads_of_org ON knowledge_uploads (org_id);

CREATE TABLE knowledge_documents (
    id            text COLLATE "C" PRIMARY KEY,
    org_id        text COLLATE "C" NOT NULL,
    collection_id text COLLATE "C" NOT NULL REFERENCES knowledge_collections (id) ON DELETE CASCADE,
    source_id     text COLLATE "C" NOT NULL REFERENCES knowledge_sources (id) ON DELETE CASCADE,
    path          text COLLATE "C" NOT NULL,
    title         text NOT NULL,
    format        text NOT NULL,
    -- SHA-256 of the content in hex; empty for a file that was not read.
    digest        text NOT NULL,
    bytes         bigint NOT NULL,
    passages      integer NOT NULL,
    -- How many words its passages have.
    length        bigint NOT NULL,
    -- Why nothing of it was taken; empty for a document.
    skipped       text NOT NULL,
    indexed_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source_id, path)
);
CREATE INDEX knowledge_documents_of_collection ON knowledge_documents (collection_id, path);

-- The parts of documents that searches find. The words are the hub's own: stems, and names as
-- they are with a "=" before them.
CREATE TABLE knowledge_passages (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id        text COLLATE "C" NOT NULL,
    collection_id text COLLATE "C" NOT NULL REFERENCES knowledge_collections (id) ON DELETE CASCADE,
    document_id   text COLLATE "C" NOT NULL REFERENCES knowledge_documents (id) ON DELETE CASCADE,
    -- From 1, in the order of the document.
    number        integer NOT NULL,
    heading       text NOT NULL,
    body          text NOT NULL,
    first_line    integer NOT NULL,
    last_line     integer NOT NULL,
    page          integer NOT NULL,
    words         tsvector NOT NULL,
    -- How many words it has.
    length        integer NOT NULL,
    UNIQUE (document_id, number)
) WITH (toast_tuple_target = 8160);
-- A search reads the words of many passages: they stay in the row, not compressed.
ALTER TABLE knowledge_passages ALTER COLUMN words SET STORAGE MAIN;
CREATE INDEX knowledge_passages_words ON knowledge_passages USING gin (words) WITH (fastupdate = off);
CREATE INDEX knowledge_passages_of_collection ON knowledge_passages (collection_id);

-- In how many passages of a collection a word is, for what a word is worth in a search.
CREATE TABLE knowledge_words (
    collection_id text COLLATE "C" NOT NULL REFERENCES knowledge_collections (id) ON DELETE CASCADE,
    word          text COLLATE "C" NOT NULL,
    passages      bigint NOT NULL,
    PRIMARY KEY (collection_id, word)
);
CREATE INDEX knowledge_words_similar ON knowledge_words USING gin (word gin_trgm_ops);

-- Runs that bring a collection up to date with its sources.
CREATE TABLE knowledge_syncs (
    id            text COLLATE "C" PRIMARY KEY,
    org_id        text COLLATE "C" NOT NULL,
    collection_id text COLLATE "C" NOT NULL REFERENCES knowledge_collections (id) ON DELETE CASCADE,
    state         text NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
    phase         text NOT NULL DEFAULT '',
    started_by    text NOT NULL,
    started_at    timestamptz NOT NULL DEFAULT now(),
    -- The hub that runs it says so every few seconds.
    seen_at       timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,
    files         integer NOT NULL DEFAULT 0,
    added         integer NOT NULL DEFAULT 0,
    changed       integer NOT NULL DEFAULT 0,
    removed       integer NOT NULL DEFAULT 0,
    skipped       integer NOT NULL DEFAULT 0,
    passages      integer NOT NULL DEFAULT 0,
    error         text NOT NULL DEFAULT '',
    -- The jail that reads, and its node, until that is removed: also after the end.
    node_id       text COLLATE "C" NOT NULL DEFAULT '',
    jail_id       text COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX knowledge_syncs_of_collection ON knowledge_syncs (collection_id, started_at DESC);
CREATE UNIQUE INDEX knowledge_syncs_one_runs ON knowledge_syncs (collection_id) WHERE state = 'running';
CREATE INDEX knowledge_syncs_running ON knowledge_syncs (org_id) WHERE state = 'running';
CREATE INDEX knowledge_syncs_with_jail ON knowledge_syncs (id) WHERE jail_id <> '';

-- +goose Down
DROP TABLE knowledge_syncs, knowledge_words, knowledge_passages, knowledge_documents, knowledge_uploads, knowledge_sources, knowledge_collections;
