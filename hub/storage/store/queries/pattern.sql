-- name: NextToLearn :one
-- The ended task that has waited longest, locked; no row if there is none.
SELECT task_id, org_id FROM learn_queue WHERE failures < 5 AND queued_at <= clock_timestamp() ORDER BY queued_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: LearntFrom :exec
DELETE FROM learn_queue WHERE task_id = @task_id;

-- name: LearningFailed :exec
UPDATE learn_queue SET failures = failures + 1, queued_at = clock_timestamp() + (failures + 1) * @pause::interval WHERE task_id = @task_id;

-- name: RunToLearn :one
-- An ended task with the name of its agent.
SELECT sqlc.embed(t), coalesce(a.name, '')::text AS agent_name
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id WHERE t.org_id = @org_id AND t.id = @id;

-- name: StepsToLearn :many
-- What a run called, in order; of long texts the beginning.
SELECT s.id, s.number, s.tool, s.category, s.state, s.error_code, left(s.decision_reason, 1000)::text AS decision_reason,
       left(coalesce(s.changed_arguments, s.arguments)::text, 4000)::text AS arguments, left(s.observation, 2000)::text AS observation
FROM steps s WHERE s.org_id = @org_id AND s.task_id = @task_id ORDER BY s.number LIMIT @max_rows;

-- name: PatternSettings :one
SELECT coalesce(s.enabled, true)::boolean AS enabled, coalesce(s.hold_out, 10)::int AS hold_out,
       coalesce(s.min_confidence, 0.7)::double precision AS min_confidence
FROM organisations o LEFT JOIN pattern_settings s ON s.org_id = o.id WHERE o.id = @org_id;

-- name: SetPatternSettings :exec
INSERT INTO pattern_settings (org_id, enabled, hold_out, min_confidence, changed_by) VALUES (@org_id, @enabled, @hold_out, @min_confidence, @changed_by)
ON CONFLICT (org_id) DO UPDATE SET enabled = excluded.enabled, hold_out = excluded.hold_out, min_confidence = excluded.min_confidence,
    changed_by = excluded.changed_by, changed_at = clock_timestamp();

-- name: PatternsToMerge :many
-- The patterns of an owner and task type that have some of the words, locked; the nearest first.
SELECT sqlc.embed(p) FROM patterns p
CROSS JOIN LATERAL (SELECT count(*) AS shared FROM unnest(p.keywords) AS k (word) WHERE k.word = ANY (@words::text[])) AS o
WHERE p.org_id = @org_id AND p.owner = @owner AND p.task_type = @task_type AND p.deleted_at IS NULL AND p.keywords && @words::text[]
ORDER BY o.shared::double precision / sqrt(cardinality(p.keywords)) DESC, p.id LIMIT 5 FOR UPDATE OF p;

-- name: CreatePattern :one
INSERT INTO patterns (id, org_id, owner, title, task_type, domain, keywords, approach, expected_iterations, source_count, edited)
VALUES (@id, @org_id, @owner, @title, @task_type, @domain, @keywords, @approach, @expected_iterations, 1, @edited)
RETURNING *;

-- name: MergePattern :one
UPDATE patterns SET title = @title, keywords = @keywords, approach = @approach, expected_iterations = @expected_iterations,
    version = version + @changed::int, source_count = source_count + 1, successes = successes + @confirmed::int,
    evidence_at = clock_timestamp(), changed_at = CASE WHEN @changed::int > 0 THEN clock_timestamp() ELSE changed_at END
WHERE org_id = @org_id AND id = @id RETURNING *;

-- name: AddPatternVersion :exec
INSERT INTO pattern_versions (pattern_id, version, org_id, title, approach, keywords, change, changed_by)
VALUES (@pattern_id, @version, @org_id, @title, @approach, @keywords, @change, @changed_by);

-- name: AddPatternSource :execrows
INSERT INTO pattern_sources (task_id, org_id, pattern_id, iterations) VALUES (@task_id, @org_id, @pattern_id, @iterations)
ON CONFLICT DO NOTHING;

-- name: IsPatternSource :one
SELECT EXISTS (SELECT 1 FROM pattern_sources WHERE org_id = @org_id AND task_id = @task_id);

-- name: MatchPatterns :many
-- The patterns that somebody sees and that are similar to a goal, the best first. Similarity is
-- the cosine of the sets of words, with task type and domain. Words and confidence select the
-- candidates by index; confidence decays, so that one that never reached it is none.
WITH asked AS (
    SELECT @words::text[] AS words, @task_type::text AS task_type, @domain::text AS domain, @min_confidence::double precision AS least
), scored AS MATERIALIZED (
    SELECT q.id, q.owner, q.visibility, pattern_confidence(q.alpha, q.beta, q.evidence_at) AS confidence,
           0.6 * o.shared / sqrt(cardinality(q.keywords) * cardinality(a.words)::double precision)
           + CASE WHEN q.task_type = a.task_type THEN 0.3 ELSE 0 END + CASE WHEN q.domain = a.domain THEN 0.1 ELSE 0 END AS similarity
    FROM asked a JOIN patterns q ON q.keywords && a.words AND q.alpha >= a.least * (q.alpha + q.beta)
    CROSS JOIN LATERAL (SELECT count(*) AS shared FROM unnest(q.keywords) AS k (word) WHERE k.word = ANY (a.words)) AS o
    WHERE q.org_id = @org_id AND q.enabled AND q.deleted_at IS NULL
)
SELECT c.id, c.confidence::double precision AS confidence, c.similarity::double precision AS similarity
FROM scored c
WHERE c.similarity >= @min_similarity::double precision AND c.confidence >= (SELECT b.least FROM asked b)
  AND pattern_seen(@org_id, c.owner, c.visibility, @viewer::text)
ORDER BY c.similarity * c.confidence DESC, c.id LIMIT @max_rows;

-- name: PatternsByID :many
SELECT sqlc.embed(p), pattern_confidence(p.alpha, p.beta, p.evidence_at)::double precision AS confidence
FROM patterns p WHERE p.org_id = @org_id AND p.id = ANY (@ids::text[]);

-- name: OfferPattern :one
-- Once for each task.
INSERT INTO pattern_offers (task_id, org_id, pattern_id, version, title, similarity, confidence, held_out)
VALUES (@task_id, @org_id, @pattern_id, @version, @title, @similarity, @confidence, @held_out)
ON CONFLICT (task_id) DO UPDATE SET task_id = excluded.task_id RETURNING *;

-- name: CountOffer :exec
UPDATE patterns SET offers = offers + 1 WHERE org_id = @org_id AND id = @id;

-- name: OfferOfTask :one
SELECT * FROM pattern_offers WHERE org_id = @org_id AND task_id = @task_id;

-- name: OffersOfPattern :many
SELECT o.* FROM pattern_offers o JOIN tasks t ON t.id = o.task_id
WHERE o.org_id = @org_id AND o.pattern_id = @pattern_id AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
ORDER BY o.offered_at DESC LIMIT @max_rows;

-- name: EndOffer :exec
UPDATE pattern_offers SET used = @used, succeeded = @succeeded, ended_at = clock_timestamp() WHERE org_id = @org_id AND task_id = @task_id;

-- name: ConfirmPattern :exec
-- A run has used it.
UPDATE patterns SET uses = uses + 1, successes = successes + @success::int, failures = failures + @failure::int, evidence_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id;

-- name: GetPattern :one
-- One that is deleted only for those who may bring it back.
SELECT sqlc.embed(p), pattern_confidence(p.alpha, p.beta, p.evidence_at)::double precision AS confidence
FROM patterns p WHERE p.org_id = @org_id AND p.id = @id;

-- name: FindPatterns :many
SELECT id, (id = @ref)::boolean AS exact FROM patterns
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix) AND (@deleted::boolean OR deleted_at IS NULL)
  AND (@sees_all::boolean OR pattern_seen(org_id, owner, visibility, @viewer::text))
ORDER BY exact DESC, id LIMIT 2;

-- name: ListPatterns :many
-- The last changed first, after a keyset position.
SELECT sqlc.embed(p), pattern_confidence(p.alpha, p.beta, p.evidence_at)::double precision AS confidence
FROM patterns p
WHERE p.org_id = @org_id AND p.deleted_at IS NULL
  AND (@sees_all::boolean OR pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text))
  AND (sqlc.narg(task_type)::text IS NULL OR p.task_type = sqlc.narg(task_type))
  AND (sqlc.narg(domain)::text IS NULL OR p.domain = sqlc.narg(domain))
  AND (sqlc.narg(enabled)::boolean IS NULL OR p.enabled = sqlc.narg(enabled))
  AND (sqlc.narg(visibility)::text IS NULL OR p.visibility = sqlc.narg(visibility))
  AND (@min_confidence::double precision = 0 OR pattern_confidence(p.alpha, p.beta, p.evidence_at) >= @min_confidence::double precision)
  AND (@query::text = '' OR position(lower(@query::text) IN lower(p.title)) > 0 OR p.keywords && @words::text[])
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (p.changed_at, p.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY p.changed_at DESC, p.id DESC LIMIT @max_rows;

-- name: PatternVersions :many
SELECT * FROM pattern_versions WHERE org_id = @org_id AND pattern_id = @pattern_id ORDER BY version DESC LIMIT @max_rows;

-- name: PatternSources :many
-- Those that somebody sees.
SELECT s.task_id, s.iterations, s.added_at, t.title, coalesce(a.name, '')::text AS agent_name
FROM pattern_sources s JOIN tasks t ON t.id = s.task_id LEFT JOIN agents a ON a.id = t.agent_id
WHERE s.org_id = @org_id AND s.pattern_id = @pattern_id AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
ORDER BY s.added_at DESC LIMIT @max_rows;

-- name: LockPattern :one
SELECT * FROM patterns WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: EditPattern :exec
UPDATE patterns SET title = @title, task_type = @task_type, domain = @domain, keywords = @keywords, approach = @approach, edited = edited OR @edited::boolean, version = version + 1, changed_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id;

-- name: SharePattern :exec
UPDATE patterns SET visibility = @visibility, changed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: EnablePattern :exec
UPDATE patterns SET enabled = @enabled, changed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: DeletePattern :exec
UPDATE patterns SET deleted_at = CASE WHEN @deleted::boolean THEN clock_timestamp() END, changed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: PurgePatterns :execrows
-- For good, those that were deleted long enough ago.
DELETE FROM patterns WHERE id IN (SELECT p.id FROM patterns p WHERE p.deleted_at < clock_timestamp() - @keep::interval LIMIT 100);

-- name: PatternReport :many
-- How the tasks ended that a pattern matched, with it and without it.
SELECT o.held_out, count(*) AS matched, count(*) FILTER (WHERE o.ended_at IS NOT NULL) AS ended,
       count(*) FILTER (WHERE o.succeeded) AS succeeded, count(*) FILTER (WHERE o.used) AS used,
       coalesce(avg(t.iteration - t.resumed_at) FILTER (WHERE o.ended_at IS NOT NULL), 0)::double precision AS iterations,
       coalesce(avg(t.cost_micros) FILTER (WHERE o.ended_at IS NOT NULL), 0)::double precision AS cost_micros
FROM pattern_offers o JOIN tasks t ON t.id = o.task_id
WHERE o.org_id = @org_id AND o.offered_at >= @since::timestamptz
  AND (sqlc.narg(pattern_id)::text IS NULL OR o.pattern_id = sqlc.narg(pattern_id))
  AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
GROUP BY o.held_out ORDER BY o.held_out;

-- name: CountPatterns :one
SELECT count(*) AS all_patterns, count(*) FILTER (WHERE p.enabled AND pattern_confidence(p.alpha, p.beta, p.evidence_at) >= @min_confidence::double precision) AS suggested
FROM patterns p WHERE p.org_id = @org_id AND p.deleted_at IS NULL AND (@sees_all::boolean OR pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text));

-- name: GiveFeedback :one
-- A person's newer verdict replaces the older.
INSERT INTO feedback (id, org_id, subject, subject_id, task_id, verdict, correction, given_by)
VALUES (@id, @org_id, @subject, @subject_id, sqlc.narg(task_id), @verdict, @correction, @given_by)
ON CONFLICT (org_id, subject, subject_id, given_by) DO UPDATE SET verdict = excluded.verdict, correction = excluded.correction, given_at = clock_timestamp()
RETURNING *;

-- name: PatternsOfTask :many
-- The patterns that a task taught, or that it was offered.
SELECT p.id, p.owner FROM patterns p
WHERE p.org_id = @org_id AND p.deleted_at IS NULL AND (p.id IN (SELECT s.pattern_id FROM pattern_sources s WHERE s.task_id = @task_id)
   OR p.id IN (SELECT o.pattern_id FROM pattern_offers o WHERE o.task_id = @task_id AND NOT o.held_out AND o.used IS NOT false))
ORDER BY p.id FOR UPDATE;

-- name: CountVerdicts :exec
-- Counts what people said of a pattern, and of the runs that taught or used it: each person
-- once for each of them.
UPDATE patterns p SET approvals = v.approvals, rejections = v.rejections, evidence_at = clock_timestamp()
FROM (SELECT count(*) FILTER (WHERE f.verdict = 'approve')::int AS approvals, count(*) FILTER (WHERE f.verdict = 'reject')::int AS rejections
      FROM feedback f WHERE f.org_id = @org_id AND (f.subject = 'pattern' AND f.subject_id = @id
         OR f.subject IN ('task', 'plan') AND f.task_id IN (
            SELECT s.task_id FROM pattern_sources s WHERE s.pattern_id = @id
            UNION SELECT o.task_id FROM pattern_offers o WHERE o.pattern_id = @id AND NOT o.held_out AND o.used IS NOT false))) AS v
WHERE p.org_id = @org_id AND p.id = @id;

-- name: ListFeedback :many
SELECT f.* FROM feedback f LEFT JOIN tasks t ON t.id = f.task_id LEFT JOIN patterns p ON f.subject = 'pattern' AND p.id = f.subject_id
WHERE f.org_id = @org_id
  AND (sqlc.narg(task_id)::text IS NULL OR f.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(pattern_id)::text IS NULL OR f.subject = 'pattern' AND f.subject_id = sqlc.narg(pattern_id))
  AND (@sees_all::boolean OR f.given_by = @viewer::text OR t.id IS NOT NULL AND task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text)
       OR p.id IS NOT NULL AND pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text))
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (f.given_at, f.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY f.given_at DESC, f.id DESC LIMIT @max_rows;

-- name: WithdrawProposals :exec
-- A newer verdict takes the place of an older correction that nobody has decided.
DELETE FROM learn_proposals WHERE org_id = @org_id AND feedback_id = @feedback_id AND state = 'open';

-- name: CreateProposal :one
INSERT INTO learn_proposals (id, org_id, feedback_id, pattern_id, task_id, owner, note, proposed_by)
VALUES (@id, @org_id, @feedback_id, @pattern_id, sqlc.narg(task_id), @owner, @note, @proposed_by) RETURNING *;

-- name: ListProposals :many
-- Those that somebody may decide, or proposed.
SELECT l.*, coalesce(p.title, '')::text AS pattern_title FROM learn_proposals l LEFT JOIN patterns p ON p.id = l.pattern_id
WHERE l.org_id = @org_id AND (sqlc.narg(state)::text IS NULL OR l.state = sqlc.narg(state))
  AND (@sees_all::boolean OR @viewer::text <> '' AND (l.owner = @viewer::text OR l.proposed_by = @viewer::text))
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (l.created_at, l.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY l.created_at DESC, l.id DESC LIMIT @max_rows;

-- name: FindProposals :many
SELECT id, (id = @ref)::boolean AS exact FROM learn_proposals
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix)
  AND (@sees_all::boolean OR @viewer::text <> '' AND (owner = @viewer::text OR proposed_by = @viewer::text))
ORDER BY exact DESC, id LIMIT 2;

-- name: LockProposal :one
SELECT * FROM learn_proposals WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: DecideProposal :one
UPDATE learn_proposals SET state = @state, decided_by = @decided_by, decided_at = clock_timestamp(), pattern_id = @pattern_id
WHERE org_id = @org_id AND id = @id RETURNING *;
