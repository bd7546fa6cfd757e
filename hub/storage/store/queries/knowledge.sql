-- name: CreateKnowledgeCollection :one
-- Returns no row if the scope has one of that name.
INSERT INTO knowledge_collections (id, org_id, scope_kind, scope_id, name, description, created_by)
VALUES (@id, @org_id, @scope_kind, @scope_id, @name, @description, @created_by)
ON CONFLICT (org_id, scope_kind, scope_id, name) DO NOTHING RETURNING *;

-- name: FindKnowledgeCollections :many
-- Of those that the viewer sees.
SELECT c.id, (c.id = @ref OR c.name = @ref)::boolean AS exact FROM knowledge_collections c
WHERE c.org_id = @org_id AND (c.id = @ref OR c.name = @ref OR c.id LIKE @prefix)
  AND scope_seen(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean)
ORDER BY exact DESC, c.id LIMIT 2;

-- name: GetKnowledgeCollection :one
-- Whether the viewer changes it comes with it. One that the viewer does not see is not there.
SELECT sqlc.embed(c), scope_writable(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean)::boolean AS writable,
       (SELECT count(*) FROM knowledge_documents d WHERE d.collection_id = c.id AND d.skipped = '') AS documents,
       (SELECT count(*) FROM knowledge_documents d WHERE d.collection_id = c.id AND d.skipped <> '') AS skipped,
       (SELECT coalesce(sum(d.passages), 0) FROM knowledge_documents d WHERE d.collection_id = c.id)::bigint AS passages,
       (SELECT coalesce(sum(d.bytes), 0) FROM knowledge_documents d WHERE d.collection_id = c.id AND d.skipped = '')::bigint AS bytes
FROM knowledge_collections c
WHERE c.org_id = @org_id AND c.id = @id AND scope_seen(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean);

-- name: ListKnowledgeCollections :many
-- A page by name and id, after one.
SELECT sqlc.embed(c), scope_writable(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean)::boolean AS writable,
       (SELECT count(*) FROM knowledge_documents d WHERE d.collection_id = c.id AND d.skipped = '') AS documents,
       (SELECT count(*) FROM knowledge_documents d WHERE d.collection_id = c.id AND d.skipped <> '') AS skipped,
       (SELECT coalesce(sum(d.passages), 0) FROM knowledge_documents d WHERE d.collection_id = c.id)::bigint AS passages,
       (SELECT coalesce(sum(d.bytes), 0) FROM knowledge_documents d WHERE d.collection_id = c.id AND d.skipped = '')::bigint AS bytes
FROM knowledge_collections c
WHERE c.org_id = @org_id AND (c.name, c.id) > (@after_name::text, @after_id::text)
  AND scope_seen(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean)
ORDER BY c.name, c.id LIMIT @max_rows;

-- name: KnowledgeCollectionsSeen :many
-- The collections that a search looks into: all that the viewer sees, or those of them that
-- are named.
SELECT c.id, c.name, c.vectors FROM knowledge_collections c
WHERE c.org_id = @org_id AND (cardinality(@only_ids::text[]) = 0 OR c.id = ANY (@only_ids::text[]))
  AND scope_seen(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean)
ORDER BY c.id;

-- name: KnowledgeCollectionOfScope :one
-- The one that a scope has by a name.
SELECT id FROM knowledge_collections WHERE org_id = @org_id AND scope_kind = @scope_kind AND scope_id = @scope_id AND name = @name;

-- name: DeleteKnowledgeCollection :execrows
DELETE FROM knowledge_collections WHERE org_id = @org_id AND id = @id;

-- name: DeleteKnowledgeOfTeam :many
-- Deletes the collections of a team, which is deleted.
DELETE FROM knowledge_collections WHERE org_id = @org_id AND scope_kind = 'team' AND scope_id = @team_id RETURNING id, name;

-- name: AddKnowledgeSource :one
-- Returns no row if it is one for uploads and the collection has that.
INSERT INTO knowledge_sources (id, org_id, collection_id, kind, agent_id, node_id, jail_id, path, url, revision, credential, created_by)
VALUES (@id, @org_id, @collection_id, @kind, @agent_id, @node_id, @jail_id, @path, @url, @revision, @credential, @created_by)
ON CONFLICT (collection_id) WHERE kind = 'upload' DO NOTHING RETURNING *;

-- name: MoveKnowledgeSource :one
-- Has the source of a folder of an agent's tasks read the workspace of another task. Returns no
-- row if there is none.
UPDATE knowledge_sources SET node_id = @node_id, jail_id = @jail_id, created_by = @created_by
WHERE id = (SELECT s.id FROM knowledge_sources s
            WHERE s.org_id = @org_id AND s.collection_id = @collection_id AND s.kind = 'workspace' AND s.agent_id = @agent_id AND s.path = @path AND s.jail_id <> ''
            ORDER BY s.created_at, s.id LIMIT 1)
RETURNING id;

-- name: KnowledgeSources :many
SELECT sqlc.embed(s), coalesce(a.name, '')::text AS agent_name, coalesce(n.name, '')::text AS node_name,
       (SELECT count(*) FROM knowledge_documents d WHERE d.source_id = s.id AND d.skipped = '') AS documents
FROM knowledge_sources s LEFT JOIN agents a ON a.id = s.agent_id LEFT JOIN nodes n ON n.id = s.node_id
WHERE s.org_id = @org_id AND s.collection_id = @collection_id ORDER BY s.created_at, s.id;

-- name: DeleteKnowledgeSource :execrows
DELETE FROM knowledge_sources WHERE org_id = @org_id AND collection_id = @collection_id AND id = @id;

-- name: EndKnowledgeSource :exec
-- How the last reading of a source ended.
UPDATE knowledge_sources SET error = @error, note = @note, synced_at = CASE WHEN @error = '' THEN now() ELSE synced_at END
WHERE org_id = @org_id AND id = @id;

-- name: PutKnowledgeUpload :exec
INSERT INTO knowledge_uploads (org_id, source_id, path, content) VALUES (@org_id, @source_id, @path, @content)
ON CONFLICT (source_id, path) DO UPDATE SET content = excluded.content, added_at = now();

-- name: KnowledgeUploads :many
SELECT path FROM knowledge_uploads WHERE org_id = @org_id AND source_id = @source_id ORDER BY path;

-- name: KnowledgeUploadsSize :one
-- How many files and bytes a source and its organisation have besides one file of the source.
SELECT count(*) FILTER (WHERE source_id = @source_id)::bigint AS files,
       coalesce(sum(octet_length(content)) FILTER (WHERE source_id = @source_id), 0)::bigint AS bytes,
       coalesce(sum(octet_length(content)), 0)::bigint AS org_bytes
FROM knowledge_uploads WHERE org_id = @org_id AND NOT (source_id = @source_id AND path = @path);

-- name: KnowledgeUpload :one
SELECT content FROM knowledge_uploads WHERE org_id = @org_id AND source_id = @source_id AND path = @path;

-- name: DeleteKnowledgeUpload :execrows
DELETE FROM knowledge_uploads WHERE org_id = @org_id AND source_id = @source_id AND path = @path;

-- name: KnowledgeDocumentsWithoutUpload :many
-- The documents that were read from uploads of a source that are deleted.
SELECT d.id FROM knowledge_documents d WHERE d.org_id = @org_id AND d.source_id = @source_id
  AND NOT EXISTS (SELECT 1 FROM knowledge_uploads u WHERE u.source_id = d.source_id AND u.path = d.path);

-- name: KnowledgeDigests :many
SELECT id, path, digest, passages FROM knowledge_documents WHERE org_id = @org_id AND source_id = @source_id;

-- name: ListKnowledgeDocuments :many
-- A page by path and id, after one: what was read, and uploads that no sync has read yet.
SELECT x.id::text AS id, x.source_id::text AS source_id, x.path::text AS path, x.title::text AS title, x.format::text AS format, x.digest::text AS digest,
       x.bytes::bigint AS bytes, x.passages::integer AS passages, x.skipped::text AS skipped, x.indexed_at::timestamptz AS indexed_at
FROM (SELECT d.id, d.source_id, d.path, d.title, d.format, d.digest, d.bytes, d.passages, d.skipped, d.indexed_at
      FROM knowledge_documents d WHERE d.org_id = @org_id AND d.collection_id = @collection_id
      UNION ALL
      SELECT 'upload_' || md5(u.source_id || ':' || u.path), u.source_id, u.path, '', '', '', octet_length(u.content), 0, 'it is not read yet: sync the collection', u.added_at
      FROM knowledge_uploads u JOIN knowledge_sources s ON s.id = u.source_id
      WHERE u.org_id = @org_id AND s.collection_id = @collection_id
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents e WHERE e.source_id = u.source_id AND e.path = u.path)) AS x
WHERE (x.path, x.id) > (@after_path::text, @after_id::text)
ORDER BY x.path, x.id LIMIT @max_rows;

-- name: DeleteKnowledgeDocuments :execrows
DELETE FROM knowledge_documents WHERE org_id = @org_id AND collection_id = @collection_id AND id = ANY (@ids::text[]);

-- name: PutKnowledgeDocuments :exec
INSERT INTO knowledge_documents (id, org_id, collection_id, source_id, path, title, format, digest, bytes, passages, length, skipped)
SELECT u.id, @org_id, @collection_id, @source_id, u.path, u.title, u.format, u.digest, u.bytes, u.passages, u.length, u.skipped
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@paths::text[]) AS path, unnest(@titles::text[]) AS title, unnest(@formats::text[]) AS format,
             unnest(@digests::text[]) AS digest, unnest(@sizes::bigint[]) AS bytes, unnest(@counts::integer[]) AS passages,
             unnest(@lengths::bigint[]) AS length,
             unnest(@reasons::text[]) AS skipped) AS u;

-- name: PutKnowledgePassages :exec
INSERT INTO knowledge_passages (org_id, collection_id, document_id, number, heading, body, first_line, last_line, page, words, length)
SELECT @org_id, @collection_id, u.document_id, u.number, u.heading, u.body, u.first_line, u.last_line, u.page, CAST(u.words AS tsvector), u.length
FROM (SELECT unnest(@document_ids::text[]) AS document_id, unnest(@numbers::integer[]) AS number, unnest(@headings::text[]) AS heading,
             unnest(@bodies::text[]) AS body, unnest(@first_lines::integer[]) AS first_line, unnest(@last_lines::integer[]) AS last_line,
             unnest(@pages::integer[]) AS page, unnest(@words::text[]) AS words, unnest(@lengths::integer[]) AS length) AS u;

-- name: CountKnowledgeWords :exec
-- Adds the words of some documents, which were just stored.
INSERT INTO knowledge_words AS k (collection_id, word, passages)
SELECT @collection_id, w.word, count(*)
FROM knowledge_passages p CROSS JOIN LATERAL unnest(tsvector_to_array(p.words)) AS w (word)
WHERE p.document_id = ANY (@document_ids::text[]) GROUP BY w.word ORDER BY w.word
ON CONFLICT (collection_id, word) DO UPDATE SET passages = k.passages + excluded.passages;

-- name: UncountKnowledgeWords :exec
-- Takes the words of some documents away, before they are deleted.
UPDATE knowledge_words k SET passages = k.passages - g.passages
FROM (SELECT w.word, count(*) AS passages
      FROM knowledge_passages p CROSS JOIN LATERAL unnest(tsvector_to_array(p.words)) AS w (word)
      WHERE p.document_id = ANY (@document_ids::text[]) GROUP BY w.word) AS g
WHERE k.collection_id = @collection_id AND k.word = g.word;

-- name: ForgetKnowledgeWords :exec
-- Deletes the words that no passage has any more.
DELETE FROM knowledge_words WHERE collection_id = @collection_id AND passages <= 0;

-- name: LockKnowledgeCollection :exec
-- Makes changes of a collection's documents wait for each other.
SELECT id FROM knowledge_collections WHERE org_id = @org_id AND id = @id FOR NO KEY UPDATE;

-- name: KnowledgeSize :one
-- How many passages some collections have, and how many words a passage has on average.
SELECT coalesce(sum(d.passages), 0)::bigint AS passages, coalesce(sum(d.length)::float8 / nullif(sum(d.passages), 0), 1)::float8 AS average
FROM knowledge_documents d WHERE d.collection_id = ANY (@collections::text[]);

-- name: KnowledgeUploadSource :one
-- The source that uploads of a collection are in.
SELECT * FROM knowledge_sources WHERE org_id = @org_id AND collection_id = @collection_id AND kind = 'upload' ORDER BY created_at LIMIT 1;

-- name: BeginKnowledgeSync :one
-- Returns no row while another one runs.
INSERT INTO knowledge_syncs (id, org_id, collection_id, state, started_by) VALUES (@id, @org_id, @collection_id, 'running', @started_by)
ON CONFLICT (collection_id) WHERE state = 'running' DO NOTHING RETURNING *;

-- name: NoteKnowledgeSync :execrows
-- Returns 0 if the sync has ended.
UPDATE knowledge_syncs SET seen_at = now(), phase = @phase, files = @files, added = @added, changed = @changed, removed = @removed, skipped = @skipped,
       passages = @passages, node_id = @node_id, jail_id = @jail_id, source_id = @source_id
WHERE org_id = @org_id AND id = @id AND state = 'running';

-- name: HoldKnowledgeSync :execrows
-- Locks a sync that writes, so that nobody else ends it before; returns 0 if it has ended.
UPDATE knowledge_syncs SET seen_at = now() WHERE org_id = @org_id AND id = @id AND state = 'running';

-- name: LockKnowledgeSyncs :exec
-- Has syncs of an organisation begin one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('knowledge-syncs:' || @org_id::text, 0));

-- name: CountKnowledgeSyncs :one
-- How many syncs of an organisation run.
SELECT count(*) FROM knowledge_syncs WHERE org_id = @org_id AND state = 'running';

-- name: EndKnowledgeSync :execrows
UPDATE knowledge_syncs SET state = @state, error = @error, ended_at = now(), seen_at = now(), phase = ''
WHERE org_id = @org_id AND id = @id AND state = 'running';

-- name: EndAbandonedKnowledgeSyncs :exec
-- Ends those whose hub is gone.
UPDATE knowledge_syncs SET state = 'failed', error = 'the hub that ran it ended', ended_at = now()
WHERE state = 'running' AND seen_at < now() - @silent::interval;

-- name: KnowledgeJailsLeft :many
-- The jails of syncs that ended, on nodes that are not gone for good.
SELECT s.org_id, s.id, s.node_id, s.jail_id FROM knowledge_syncs s JOIN nodes n ON n.id = s.node_id AND n.revoked_at IS NULL
WHERE s.jail_id <> '' AND s.state <> 'running' ORDER BY s.ended_at DESC LIMIT 1000;

-- name: ForgetKnowledgeJail :exec
-- A jail of a sync is removed.
UPDATE knowledge_syncs SET node_id = '', jail_id = '', source_id = '' WHERE org_id = @org_id AND id = @id AND jail_id = @jail_id;

-- name: SourceInJail :one
-- The source that a sync reads in a jail of a node now, with a credential.
SELECT s.* FROM knowledge_syncs y JOIN knowledge_sources s ON s.id = y.source_id
WHERE y.org_id = @org_id AND y.state = 'running' AND y.jail_id = @jail_id AND y.jail_id <> '' AND (@node_id::text = '' OR y.node_id = @node_id) AND s.credential <> '';

-- name: GetKnowledgeSync :one
SELECT * FROM knowledge_syncs WHERE org_id = @org_id AND id = @id;

-- name: LastKnowledgeSync :one
SELECT * FROM knowledge_syncs WHERE org_id = @org_id AND collection_id = @collection_id ORDER BY started_at DESC LIMIT 1;

-- name: KnowledgeWordCounts :many
-- In how many passages of some collections each word is.
SELECT word, sum(passages)::bigint AS passages FROM knowledge_words
WHERE collection_id = ANY (@collections::text[]) AND word = ANY (@words::text[]) GROUP BY word;

-- name: SimilarKnowledgeWords :many
-- Words of some collections that are like one by their trigrams, the likest first.
SELECT w.word, max(similarity(w.word, @word::text))::float8 AS likeness, sum(w.passages)::bigint AS passages
FROM knowledge_words w
WHERE w.collection_id = ANY (@collections::text[]) AND w.word % @word::text
GROUP BY w.word ORDER BY likeness DESC, w.word LIMIT @max_rows;

-- name: RankKnowledge :many
-- The passages that have one of the words in @any and that are best at first sight, with how
-- often they have each of the words. First sight is ts_rank of each word, which is cheap, and
-- grows with the word's places up to a limit. OFFSET 0 makes the database compute it once.
WITH term AS MATERIALIZED (
    SELECT CAST(t.query AS tsquery) AS query, t.weight
    FROM (SELECT unnest(@queries::text[]) AS query, unnest(@weights::float8[]) AS weight) AS t
), near AS MATERIALIZED (
    SELECT x.id
    FROM (SELECT p.id, t.weight, ts_rank('{0.3, 0.3, 0.6, 1.0}', p.words, t.query)::float8 AS rank, (0.2 + 0.3 * p.length / sqlc.arg(average)::float8)::float8 AS half_rank
          FROM knowledge_passages p CROSS JOIN term t
          WHERE p.org_id = @org_id AND p.collection_id = ANY (@collections::text[]) AND p.words @@ CAST(@any_of::text AS tsquery)
          OFFSET 0) AS x
    WHERE x.rank > 0
    GROUP BY x.id ORDER BY sum(x.weight * x.rank / (x.rank + x.half_rank)) DESC, x.id LIMIT @max_rows
)
SELECT p.id, p.document_id, p.heading, p.length, d.path, d.title, passage_counts(p.words, @words::text[])::integer[] AS counts
FROM near n JOIN knowledge_passages p ON p.id = n.id JOIN knowledge_documents d ON d.id = p.document_id;

-- name: KnowledgePassages :many
SELECT p.id, p.collection_id, p.document_id, p.number, p.heading, p.body, p.first_line, p.last_line, p.page,
       d.path, d.title, d.format, d.indexed_at, d.passages, c.name AS collection, s.kind, s.url, s.agent_id, s.node_id
FROM knowledge_passages p JOIN knowledge_documents d ON d.id = p.document_id JOIN knowledge_collections c ON c.id = p.collection_id
JOIN knowledge_sources s ON s.id = d.source_id
WHERE p.org_id = @org_id AND p.id = ANY (@ids::bigint[]);

-- name: KnowledgePassage :one
-- A passage of a collection that the viewer sees.
SELECT p.id, p.document_id, p.number FROM knowledge_passages p JOIN knowledge_collections c ON c.id = p.collection_id
WHERE p.org_id = @org_id AND p.id = @id AND scope_seen(c.org_id, c.scope_kind, c.scope_id, @viewer::text, @administrator::boolean);

-- name: KnowledgeNeighbours :many
-- The ids of the passages around one, in the order of the document.
SELECT p.id FROM knowledge_passages p
WHERE p.org_id = @org_id AND p.document_id = @document_id AND p.number BETWEEN @first::integer AND @last::integer ORDER BY p.number;
