-- name: LockMemory :one
-- The entry with a scope, type and key, deleted ones too.
SELECT * FROM memories
WHERE org_id = @org_id AND scope_kind = @scope_kind AND scope_id = @scope_id AND only_for = @only_for AND type = @type AND key = @key
FOR NO KEY UPDATE;

-- name: LockMemoryByID :one
SELECT * FROM memories WHERE org_id = @org_id AND id = @id FOR NO KEY UPDATE;

-- name: LockMemoryScope :exec
-- Makes writes of a scope wait for each other, so that they are counted.
SELECT pg_advisory_xact_lock(hashtextextended(@scope::text, 7201));

-- name: CountMemories :one
-- How many entries a scope has for all or for one user, deleted ones too, up to a number.
SELECT count(*) FROM (SELECT 1 FROM memories m
    WHERE m.org_id = @org_id AND m.scope_kind = @scope_kind AND m.scope_id = @scope_id AND m.only_for = @only_for LIMIT @most::int) AS counted;

-- name: DropOldestDeleted :one
-- Makes room for an entry of a scope by deleting for good what was deleted first, with what
-- people said of it. Returns how many entries were deleted.
WITH gone AS (
    DELETE FROM memories m WHERE m.id = (
        SELECT d.id FROM memories d WHERE d.org_id = @org_id AND d.scope_kind = @scope_kind AND d.scope_id = @scope_id AND d.only_for = @only_for
          AND d.deleted_at IS NOT NULL ORDER BY d.deleted_at, d.id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING m.org_id, m.id),
     verdicts AS (DELETE FROM feedback f USING gone g WHERE f.org_id = g.org_id AND f.subject = 'memory' AND f.subject_id = g.id)
SELECT count(*)::bigint FROM gone;

-- name: InsertMemory :one
INSERT INTO memories (id, org_id, scope_kind, scope_id, only_for, type, key, value, body, source, source_user, source_agent, source_task, source_step,
                      untrusted, confirmed_by, confidence, expires_at)
VALUES (@id, @org_id, @scope_kind, @scope_id, @only_for, @type, @key, @value, @body, @source, @source_user, @source_agent, @source_task, @source_step,
        @untrusted, @confirmed_by, @confidence, sqlc.narg(expires_at))
RETURNING *;

-- name: SelectorsOf :many
-- The selectors of an agent for all and for one user, those that were used last first.
SELECT * FROM memories m
WHERE m.org_id = @org_id AND m.scope_kind = 'agent' AND m.scope_id = @agent_id AND m.only_for IN ('', @user_id::text) AND m.type = 'selector'
  AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) AND m.confidence >= @least
ORDER BY greatest(m.used_at, m.updated_at) DESC, m.id LIMIT @max_rows;

-- name: WeighMemory :exec
-- Counts a use of an entry, and says how sure it is after that.
UPDATE memories SET confidence = @confidence, expires_at = sqlc.narg(expires_at), uses = uses + 1, used_at = now() WHERE org_id = @org_id AND id = @id;

-- name: DropOldestSelectors :exec
-- Deletes for good the selectors of a scope that were not used for longest, without those that
-- a person wrote or confirmed.
DELETE FROM memories m WHERE m.id IN (
    SELECT o.id FROM memories o
    WHERE o.org_id = @org_id AND o.scope_kind = @scope_kind AND o.scope_id = @scope_id AND o.only_for = @only_for AND o.type = 'selector' AND o.confirmed_by = ''
    ORDER BY greatest(o.used_at, o.updated_at) DESC, o.id OFFSET @most::int);

-- name: UpdateMemory :one
-- A new version of an entry; a deleted one is there again.
UPDATE memories SET value = @value, body = @body, source = @source, source_user = @source_user, source_agent = @source_agent,
    source_task = @source_task, source_step = @source_step, untrusted = @untrusted, confirmed_by = @confirmed_by, confidence = @confidence,
    expires_at = sqlc.narg(expires_at), version = version + 1, updated_at = now(), deleted_at = NULL
WHERE org_id = @org_id AND id = @id
RETURNING *;

-- name: InsertMemoryVersion :exec
INSERT INTO memory_versions (memory_id, org_id, version, value, source, source_user, source_agent, source_task, source_step, untrusted, confidence)
SELECT m.id, m.org_id, m.version, m.value, m.source, m.source_user, m.source_agent, m.source_task, m.source_step, m.untrusted, m.confidence
FROM memories m WHERE m.org_id = @org_id AND m.id = @id;

-- name: TrimMemoryVersions :exec
DELETE FROM memory_versions v WHERE v.org_id = @org_id AND v.memory_id = @memory_id AND v.version <= @up_to::int
  AND NOT EXISTS (SELECT 1 FROM memory_uses u WHERE u.memory_id = v.memory_id AND u.version = v.version);

-- name: FindMemories :many
-- Those that somebody sees, by id or id prefix; see store.One.
SELECT id, (id = @ref)::boolean AS exact FROM memories m
WHERE m.org_id = @org_id AND (m.id = @ref OR m.id LIKE @prefix) AND memory_seen(m.org_id, m.scope_kind, m.scope_id, m.only_for, @viewer::text, @administrator::boolean)
ORDER BY exact DESC, id LIMIT 2;

-- name: GetMemories :many
-- Some entries with the names that people know, in the order of their ids. Who sees and writes
-- them is looked up once for each scope: OFFSET 0 keeps the database from asking for each entry.
SELECT sqlc.embed(m),
       coalesce(CASE m.scope_kind WHEN 'team' THEN (SELECT t.name FROM teams t WHERE t.id = m.scope_id)
            WHEN 'user' THEN (SELECT u.name FROM users u WHERE u.id = m.scope_id)
            WHEN 'agent' THEN (SELECT a.name FROM agents a WHERE a.id = m.scope_id)
            WHEN 'workspace' THEN (SELECT a.name FROM agents a WHERE a.id = 'agent_' || substr(m.scope_id, 6))
            WHEN 'organisation' THEN (SELECT o.name FROM organisations o WHERE o.id = m.scope_id) END, '')::text AS scope_name,
       coalesce((SELECT a.name FROM agents a WHERE a.id = m.source_agent), '')::text AS agent_name,
       coalesce((SELECT u.name FROM users u WHERE u.id = m.only_for), '')::text AS only_for_name,
       x.writable::boolean AS writable
FROM memories m JOIN (
    SELECT s.scope_kind, s.scope_id, s.only_for, memory_writable(@org_id, s.scope_kind, s.scope_id, s.only_for, @viewer::text, @administrator::boolean) AS writable
    FROM (SELECT DISTINCT d.scope_kind, d.scope_id, d.only_for FROM memories d WHERE d.org_id = @org_id AND d.id = ANY (@ids::text[]) OFFSET 0) AS s
    WHERE memory_seen(@org_id, s.scope_kind, s.scope_id, s.only_for, @viewer::text, @administrator::boolean)
) AS x ON x.scope_kind = m.scope_kind AND x.scope_id = m.scope_id AND x.only_for = m.only_for
WHERE m.org_id = @org_id AND m.id = ANY (@ids::text[])
ORDER BY m.id;

-- name: MemoryScopes :many
-- The scopes that have entries and that somebody sees. Each is found by one look into the index.
WITH RECURSIVE s AS (
    (SELECT m.scope_kind, m.scope_id FROM memories m WHERE m.org_id = @org_id ORDER BY m.scope_kind, m.scope_id LIMIT 1)
    UNION ALL
    SELECT n.scope_kind, n.scope_id FROM s CROSS JOIN LATERAL (
        SELECT m.scope_kind, m.scope_id FROM memories m
        WHERE m.org_id = @org_id AND (m.scope_kind, m.scope_id) > (s.scope_kind, s.scope_id)
        ORDER BY m.scope_kind, m.scope_id LIMIT 1) AS n)
SELECT s.scope_kind::text AS kind, s.scope_id::text AS id FROM s
WHERE scope_seen(@org_id, s.scope_kind, s.scope_id, @viewer::text, @administrator::boolean);

-- name: ListMemories :many
-- A page of the ids of what is in some scopes ("kind:id"), the last changed first, after a
-- keyset position.
SELECT m.id, m.updated_at FROM memories m
WHERE m.org_id = @org_id AND (m.scope_kind || ':' || m.scope_id) = ANY (@scopes::text[])
  AND (m.only_for = '' OR m.only_for = @user_id::text)
  AND (cardinality(@types::text[]) = 0 OR m.type = ANY (@types::text[]))
  AND (@source::text = '' OR m.source = @source::text)
  AND (NOT @unconfirmed::boolean OR m.confirmed_by = '')
  AND (m.deleted_at IS NOT NULL) = @deleted::boolean
  AND (@deleted::boolean OR m.expires_at IS NULL OR m.expires_at > now())
  AND (@query::text = '' OR m.words @@ plainto_tsquery('english', @query::text) OR position(lower(@query::text) IN lower(m.key)) > 0)
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (m.updated_at, m.id) < (sqlc.narg(before_time), @before_id::text))
ORDER BY m.updated_at DESC, m.id DESC LIMIT @max_rows;

-- name: StandingMemories :many
-- What a run is always told of some scopes ("@kind:id"): the instructions that a person answers
-- for, and the preferences.
SELECT m.* FROM memories m
WHERE m.org_id = @org_id AND m.type IN ('instruction', 'preference') AND (m.scope_kind || ':' || m.scope_id) = ANY (@scopes::text[])
  AND (m.only_for = '' OR m.only_for = @user_id::text)
  AND m.confirmed_by <> '' AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
ORDER BY m.type, m.scope_kind, m.key LIMIT @max_rows;

-- name: RecallMemories :many
-- What has some words of a text in some scopes ("kind:id"): as many as are looked at closer. The
-- rarest words are looked for first, up to as many places as are read; what is rare in these
-- scopes weighs more.
WITH place AS MATERIALIZED (
    SELECT hashtextextended(s.scope || ':' || o.only_for, 8531) AS scope
    FROM unnest(@scopes::text[]) AS s (scope) CROSS JOIN (SELECT DISTINCT unnest(ARRAY['', @user_id::text]) AS only_for) AS o
), term AS MATERIALIZED (
    SELECT DISTINCT hashtextextended(l.lexeme, 8532) AS word FROM unnest(to_tsvector('english', @text::text)) AS l
), posting AS MATERIALIZED (
    SELECT p.scope, t.word, (SELECT count(*) FROM (SELECT 1 FROM memory_words w WHERE w.scope = p.scope AND w.word = t.word LIMIT @most::int) AS c) AS entries
    FROM place p CROSS JOIN term t
), rare AS MATERIALIZED (
    SELECT r.word, 1 / ln(2 + r.entries::double precision) AS weight FROM (
        SELECT c.word, c.entries, sum(c.entries) OVER (ORDER BY c.entries, c.word) - c.entries AS before
        FROM (SELECT g.word, sum(g.entries) AS entries FROM posting g GROUP BY g.word HAVING sum(g.entries) > 0) AS c) AS r
    WHERE r.before = 0 OR r.before + r.entries <= @most::int
), near AS MATERIALIZED (
    SELECT w.memory, sum(r.weight)::double precision AS rank
    FROM rare r JOIN posting g ON g.word = r.word AND g.entries > 0
    CROSS JOIN LATERAL (SELECT x.memory FROM memory_words x WHERE x.scope = g.scope AND x.word = g.word LIMIT @most::int) AS w
    GROUP BY w.memory ORDER BY rank DESC, w.memory DESC LIMIT @near::int
)
SELECT sqlc.embed(m), n.rank FROM near n JOIN memories m ON m.serial = n.memory
WHERE m.org_id = @org_id AND (m.scope_kind || ':' || m.scope_id) = ANY (@scopes::text[])
  AND (m.only_for = '' OR m.only_for = @user_id::text)
  AND (cardinality(@types::text[]) = 0 OR m.type = ANY (@types::text[]))
  AND (@unconfirmed::boolean OR NOT m.untrusted)
  AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
ORDER BY n.rank DESC, m.id LIMIT @max_rows;

-- name: SimilarMemories :many
-- What has a key that is written nearly as a text, among the last changed of some scopes
-- ("kind:id"): every key is compared, which no index does. Each scope is read by its own index:
-- over several at once, the database read the whole organisation's last changed.
SELECT sqlc.embed(m), word_similarity(m.key, @text::text)::double precision AS rank
FROM (SELECT l.id FROM unnest(@scopes::text[]) AS s (scope) CROSS JOIN LATERAL (
        SELECT n.id, n.updated_at FROM memories n WHERE n.org_id = @org_id AND (n.scope_kind || ':' || n.scope_id) = s.scope
        ORDER BY n.updated_at DESC, n.id DESC LIMIT @newest) AS l
    ORDER BY l.updated_at DESC, l.id DESC LIMIT @newest) AS c
JOIN memories m ON m.id = c.id
WHERE (m.only_for = '' OR m.only_for = @user_id::text)
  AND (cardinality(@types::text[]) = 0 OR m.type = ANY (@types::text[]))
  AND (@unconfirmed::boolean OR NOT m.untrusted)
  AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
  AND word_similarity(m.key, @text::text) > @least::real
ORDER BY rank DESC, m.id LIMIT @max_rows;

-- name: ListMemoryVersions :many
SELECT v.*, coalesce((SELECT a.name FROM agents a WHERE a.id = v.source_agent), '')::text AS agent_name FROM memory_versions v
WHERE v.org_id = @org_id AND v.memory_id = @memory_id AND (@before::int = 0 OR v.version < @before::int)
ORDER BY v.version DESC LIMIT @max_rows;

-- name: GetMemoryVersion :one
SELECT * FROM memory_versions WHERE org_id = @org_id AND memory_id = @memory_id AND version = @version;

-- name: DeleteMemory :execrows
UPDATE memories SET deleted_at = now(), updated_at = now() WHERE org_id = @org_id AND id = @id AND deleted_at IS NULL;

-- name: UndeleteMemory :execrows
UPDATE memories SET deleted_at = NULL, updated_at = now() WHERE org_id = @org_id AND id = @id AND deleted_at IS NOT NULL;

-- name: ConfirmMemory :exec
-- With share it is for all who read its scope.
UPDATE memories SET untrusted = false, confirmed_by = @confirmed_by, only_for = CASE WHEN @share::boolean THEN '' ELSE only_for END, updated_at = now()
WHERE org_id = @org_id AND id = @id;

-- name: UseMemories :exec
-- Stores what a task's run is told, in order, and that it got it. It does not wait for entries
-- that somebody changes now: those are not counted as used.
WITH used AS (
    INSERT INTO memory_uses (org_id, task_id, place, memory_id, version, standing)
    SELECT @org_id, @task_id, u.place, u.memory_id, u.version, u.standing
    FROM (SELECT unnest(@places::int[]) AS place, unnest(@memory_ids::text[]) AS memory_id, unnest(@versions::int[]) AS version, unnest(@standing::boolean[]) AS standing) AS u
    ON CONFLICT DO NOTHING RETURNING memory_id
), free AS (
    SELECT f.id FROM memories f WHERE f.id = ANY (@memory_ids::text[]) FOR NO KEY UPDATE SKIP LOCKED)
UPDATE memories m SET uses = m.uses + 1, used_at = now() FROM used JOIN free ON free.id = used.memory_id WHERE m.id = used.memory_id;

-- name: ChooseMemories :execrows
-- Returns 0 if it was decided already what the task's run is told.
UPDATE tasks SET memories_chosen = true WHERE org_id = @org_id AND id = @id AND NOT memories_chosen;

-- name: TouchMemories :exec
-- Counts a use, without waiting for entries that somebody changes now.
WITH free AS (SELECT f.id FROM memories f WHERE f.org_id = @org_id AND f.id = ANY (@ids::text[]) FOR NO KEY UPDATE SKIP LOCKED)
UPDATE memories m SET uses = m.uses + 1, used_at = now() FROM free WHERE m.id = free.id;

-- name: MemoriesOfTask :many
-- What a task's run was told, in order, with the source of the version that it was told. With
-- gone, entries that were deleted or are over since, too.
SELECT sqlc.embed(m), u.version AS told_version, u.standing, coalesce(v.value, m.value)::jsonb AS told,
       coalesce(v.source, m.source)::text AS told_source, coalesce(v.source_user, m.source_user)::text AS told_user FROM memory_uses u
JOIN memories m ON m.id = u.memory_id
LEFT JOIN memory_versions v ON v.memory_id = u.memory_id AND v.version = u.version
WHERE u.org_id = @org_id AND u.task_id = @task_id
  AND (@gone::boolean OR m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()))
ORDER BY u.place;

-- name: MarkTaskUntrusted :exec
UPDATE tasks SET untrusted_at = clock_timestamp() WHERE id = @id AND (org_id = @org_id) IS TRUE AND untrusted_at IS NULL;

-- name: TaskUntrusted :one
SELECT task_untrusted(@org_id::text, @id::text)::boolean;

-- name: PurgeMemories :one
-- Everything of a user's: what only they read, with its versions.
WITH gone AS (
    DELETE FROM memories m WHERE m.org_id = @org_id AND (m.scope_kind = 'user' AND m.scope_id = @user_id OR m.only_for = @user_id)
    RETURNING m.id),
     verdicts AS (DELETE FROM feedback f USING gone g WHERE f.org_id = @org_id AND f.subject = 'memory' AND f.subject_id = g.id)
SELECT (SELECT count(*) FROM gone)::bigint AS memories,
       (SELECT count(*) FROM memory_versions v JOIN gone g ON g.id = v.memory_id)::bigint AS versions;

-- name: PurgeMemoryVerdicts :many
-- What a user said of entries that are others' too; returns these.
DELETE FROM feedback WHERE org_id = @org_id AND subject = 'memory' AND given_by = @user_name RETURNING subject_id;

-- name: CountMemoryVerdicts :exec
-- The confidence in an entry: that with which its version was written, which weighs as much as
-- two people, and what people have said of it since.
UPDATE memories m SET confidence = (2 * v.confidence + n.approvals) / (2 + n.approvals + n.rejections)
FROM memory_versions v CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE f.verdict = 'approve') AS approvals, count(*) FILTER (WHERE f.verdict = 'reject') AS rejections
    FROM feedback f WHERE f.org_id = @org_id AND f.subject = 'memory' AND f.subject_id = v.memory_id AND f.given_at >= v.created_at) AS n
WHERE m.org_id = @org_id AND m.id = @id AND v.memory_id = m.id AND v.version = m.version;

-- name: PruneMemories :one
-- Deletes a batch of what has been deleted or over for some time, with what people said of it.
-- Returns how many entries were deleted.
WITH gone AS (
    DELETE FROM memories m WHERE m.id IN (
        SELECT o.id FROM memories o WHERE least(o.expires_at, o.deleted_at) < @before AND (o.expires_at IS NOT NULL OR o.deleted_at IS NOT NULL) LIMIT @max_rows)
    RETURNING m.org_id, m.id),
     verdicts AS (DELETE FROM feedback f USING gone g WHERE f.org_id = g.org_id AND f.subject = 'memory' AND f.subject_id = g.id)
SELECT count(*)::bigint FROM gone;

-- name: PreferencesOf :many
-- The preferences of a user.
SELECT m.key, m.value FROM memories m JOIN users u ON u.id = m.scope_id
WHERE m.org_id = @org_id AND u.org_id = @org_id AND u.name = @user_name AND m.scope_kind = 'user' AND m.only_for = '' AND m.type = 'preference'
  AND m.confirmed_by <> '' AND m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now());

-- name: TasksWithMemories :many
-- The tasks of a user that called some tools, or were told what only the user reads, without
-- those on legal hold. live: it has not ended.
SELECT t.id, (t.finished_at IS NULL)::boolean AS live FROM tasks t
WHERE t.org_id = @org_id AND t.created_by = @user_name
  AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = t.id)
  AND (EXISTS (SELECT 1 FROM steps s WHERE s.task_id = t.id AND s.tool = ANY (@tools::text[]) AND s.arguments <> '{}')
    OR EXISTS (SELECT 1 FROM memory_uses u JOIN memories m ON m.id = u.memory_id
               WHERE u.task_id = t.id AND (m.scope_kind = 'user' AND m.scope_id = @user_id::text OR m.only_for = @user_id::text)))
ORDER BY t.id;

-- name: DeleteCheckpointsOf :exec
DELETE FROM checkpoints WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]);
