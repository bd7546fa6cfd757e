-- name: KnowledgeEmbedding :one
SELECT * FROM knowledge_embeddings WHERE org_id = @org_id;

-- name: HoldKnowledgeEmbedding :one
-- The settings, which do not change until the transaction ends; no row if they are others now.
SELECT * FROM knowledge_embeddings WHERE org_id = @org_id AND generation = @generation FOR SHARE;

-- name: PutKnowledgeEmbedding :one
-- Sets the model. All passages are to be embedded again.
INSERT INTO knowledge_embeddings AS e (org_id, provider, model, dimensions, changed_by)
VALUES (@org_id, @provider, @model, @dimensions, @changed_by)
ON CONFLICT (org_id) DO UPDATE SET provider = excluded.provider, model = excluded.model, dimensions = excluded.dimensions, size = 0,
    generation = e.generation + 1, changed_by = excluded.changed_by, changed_at = now(), error = '', failures = 0, next_at = now()
RETURNING *;

-- name: ResizeKnowledgeEmbedding :execrows
-- The model's vectors have another size now. All passages are to be embedded again, unless
-- there are no vectors yet.
UPDATE knowledge_embeddings SET size = @size, generation = generation + CASE WHEN size = 0 THEN 0 ELSE 1 END, next_at = now()
WHERE org_id = @org_id AND generation = @generation AND size <> @size;

-- name: DropKnowledgeEmbedding :execrows
DELETE FROM knowledge_embeddings WHERE org_id = @org_id;

-- name: DropKnowledgeVectors :exec
-- Deletes all vectors of an organisation.
WITH touched AS (UPDATE knowledge_collections k SET vectors = k.vectors + 1 WHERE k.org_id = @org_id RETURNING k.id)
DELETE FROM knowledge_vectors v USING touched c WHERE v.collection_id = c.id;

-- name: RetryRefusedPassages :exec
-- Has the passages that the model refused sent to it again.
WITH retried AS (DELETE FROM knowledge_vectors v WHERE v.org_id = @org_id AND cardinality(v.vector) = 0)
UPDATE knowledge_embeddings e SET next_at = now() WHERE e.org_id = @org_id;

-- name: DueKnowledgeEmbeddings :many
SELECT * FROM knowledge_embeddings WHERE next_at <= now() ORDER BY next_at LIMIT @max_rows;

-- name: WantKnowledgeEmbeddings :exec
-- New passages are there. While calls fail, they wait like the others.
UPDATE knowledge_embeddings SET next_at = now() WHERE org_id = @org_id AND failures = 0 AND next_at > now();

-- name: NoteKnowledgeEmbedding :exec
-- How a pass over the passages ended, and when the next one is due.
UPDATE knowledge_embeddings SET error = @error, failures = @failures, next_at = now() + @pause::interval WHERE org_id = @org_id AND generation = @generation;

-- name: KnowledgeVectorCounts :many
-- How many passages of each collection have a vector, with the scope that it is in.
SELECT c.id, (c.scope_kind || ':' || c.scope_id)::text AS scope, (SELECT count(*) FROM knowledge_vectors v WHERE v.collection_id = c.id) AS vectors
FROM knowledge_collections c WHERE c.org_id = @org_id;

-- name: KnowledgeVectorTotals :one
-- How many passages an organisation has, how many of them have a vector, and how many the model
-- refused.
SELECT (SELECT coalesce(sum(d.passages), 0) FROM knowledge_documents d WHERE d.org_id = @org_id)::bigint AS passages,
       (SELECT count(*) FROM knowledge_vectors v WHERE v.org_id = @org_id AND cardinality(v.vector) > 0)::bigint AS embedded,
       (SELECT count(*) FROM knowledge_vectors v WHERE v.org_id = @org_id AND cardinality(v.vector) = 0)::bigint AS refused;

-- name: PassagesToEmbed :many
-- Passages without a vector, after one, without those of some collections.
SELECT p.id, p.collection_id, p.heading, p.body, d.title FROM knowledge_passages p JOIN knowledge_documents d ON d.id = p.document_id
WHERE p.org_id = @org_id AND p.id > @after AND NOT (p.collection_id = ANY (@without::text[]))
  AND NOT EXISTS (SELECT 1 FROM knowledge_vectors v WHERE v.passage_id = p.id)
ORDER BY p.id LIMIT @max_rows;

-- name: TouchKnowledgeVectors :exec
UPDATE knowledge_collections SET vectors = vectors + 1 WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: PutKnowledgeVector :exec
-- Of a passage that is still there.
INSERT INTO knowledge_vectors (passage_id, org_id, collection_id, vector)
SELECT p.id, p.org_id, p.collection_id, @vector::real[]
FROM (SELECT q.id, q.org_id, q.collection_id FROM knowledge_passages q WHERE q.id = @passage_id AND q.org_id = @org_id FOR KEY SHARE) AS p
ON CONFLICT (passage_id) DO NOTHING;

-- name: KnowledgeVectorIDs :many
SELECT passage_id FROM knowledge_vectors WHERE collection_id = @collection_id AND cardinality(vector) = @size::int ORDER BY passage_id;

-- name: KnowledgeVectors :many
SELECT passage_id, vector FROM knowledge_vectors WHERE passage_id = ANY (@ids::bigint[]) AND collection_id = @collection_id ORDER BY passage_id;

-- name: HasVectorExtension :one
-- Whether pgvector is installed in the database.
SELECT (to_regtype('vector') IS NOT NULL)::boolean AS installed;

-- name: NearestPassages :many
-- The passages of some collections whose vectors are nearest to one, by pgvector: exactly, since
-- no index of it knows which collections somebody may read.
SELECT v.passage_id FROM knowledge_vectors v
WHERE v.collection_id = ANY (@collections::text[]) AND cardinality(v.vector) = @size::int
ORDER BY CAST(v.vector AS vector) <#> CAST(CAST(@question::real[] AS real[]) AS vector), v.passage_id LIMIT @max_rows;
