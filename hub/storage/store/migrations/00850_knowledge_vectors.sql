-- +goose Up

-- The model that turns an organisation's passages into vectors, for search by meaning. Without
-- a row, nothing of it is sent to a model.
CREATE TABLE knowledge_embeddings (
    org_id     text COLLATE "C" PRIMARY KEY REFERENCES organisations (id),
    provider   text NOT NULL,
    model      text NOT NULL,
    -- How many dimensions the vectors are asked to have; 0 for as many as the model has.
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 0 AND 4096),
    -- How many those have that there are; 0 before the first.
    size       integer NOT NULL DEFAULT 0,
    -- Changes when all passages are to be embedded again.
    generation bigint NOT NULL DEFAULT 1,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- Why the last batch failed; empty if it did not. failures are those in a row.
    error      text NOT NULL DEFAULT '',
    failures   integer NOT NULL DEFAULT 0,
    -- When to look next for passages without a vector.
    next_at    timestamptz NOT NULL DEFAULT now()
);

-- The vectors of passages, of length 1. One without dimensions is of a passage that the model
-- refused.
CREATE TABLE knowledge_vectors (
    passage_id    bigint PRIMARY KEY REFERENCES knowledge_passages (id) ON DELETE CASCADE,
    org_id        text COLLATE "C" NOT NULL,
    collection_id text COLLATE "C" NOT NULL,
    vector        real[] NOT NULL
) WITH (toast_tuple_target = 8160);
-- They do not get smaller by compression, and a search may read all of them.
ALTER TABLE knowledge_vectors ALTER COLUMN vector SET STORAGE EXTERNAL;
CREATE INDEX knowledge_vectors_of_collection ON knowledge_vectors (collection_id, passage_id);

-- Changes whenever the collection's vectors do.
ALTER TABLE knowledge_collections ADD COLUMN vectors bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE knowledge_collections DROP COLUMN vectors;
DROP TABLE knowledge_vectors, knowledge_embeddings;
