-- name: NextToLearn :many
-- The ended tasks that have waited longest, locked.
SELECT task_id, org_id FROM learn_queue WHERE failures < 5 AND queued_at <= clock_timestamp() ORDER BY queued_at LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: LearntFrom :exec
DELETE FROM learn_queue WHERE task_id = ANY (@task_ids::text[]);

-- name: LearningFailed :exec
UPDATE learn_queue SET failures = failures + 1, queued_at = clock_timestamp() + (failures + 1) * @pause::interval WHERE task_id = @task_id;

-- name: RunToLearn :one
-- An ended task with the name of its agent.
SELECT sqlc.embed(t), coalesce(a.name, '')::text AS agent_name
FROM tasks t LEFT JOIN agents a ON a.id = t.agent_id WHERE t.org_id = @org_id AND t.id = @id;

-- name: StepsToLearn :many
-- What a run called, in order; of long texts the beginning.
SELECT s.id, s.number, s.tool, s.category, s.state, s.error_code, left(s.decision_reason, 1000)::text AS decision_reason,
       left(coalesce(s.changed_arguments, s.arguments)::text, 4000)::text AS arguments, left(s.observation, 2000)::text AS observation,
       coalesce(s.outcome #> '{egress,refused}', '[]'::jsonb)::jsonb AS refused
FROM steps s WHERE s.org_id = @org_id AND s.task_id = @task_id ORDER BY s.number LIMIT @max_rows;

-- name: PatternSettings :one
SELECT coalesce(s.enabled, true)::boolean AS enabled, coalesce(s.hold_out, 10)::int AS hold_out,
       coalesce(s.min_confidence, 0.7)::double precision AS min_confidence, coalesce(s.provider, '')::text AS provider, coalesce(s.model, '')::text AS model
FROM organisations o LEFT JOIN pattern_settings s ON s.org_id = o.id WHERE o.id = @org_id;

-- name: SetPatternSettings :exec
INSERT INTO pattern_settings (org_id, enabled, hold_out, min_confidence, provider, model, changed_by)
VALUES (@org_id, @enabled, @hold_out, @min_confidence, @provider, @model, @changed_by)
ON CONFLICT (org_id) DO UPDATE SET enabled = excluded.enabled, hold_out = excluded.hold_out, min_confidence = excluded.min_confidence,
    provider = excluded.provider, model = excluded.model,
    changed_by = excluded.changed_by, changed_at = clock_timestamp();

-- name: PatternsToMerge :many
-- The patterns of an owner and task type that have some of the words, locked; the nearest first.
SELECT sqlc.embed(p) FROM patterns p
CROSS JOIN LATERAL (SELECT count(*) AS shared FROM unnest(p.keywords) AS k (word) WHERE k.word = ANY (@words::text[])) AS o
WHERE p.org_id = @org_id AND p.owner = @owner AND p.task_type = @task_type AND p.deleted_at IS NULL AND p.keywords && @words::text[]
ORDER BY o.shared::double precision / sqrt(cardinality(p.keywords)) DESC, p.id LIMIT 5 FOR UPDATE OF p;

-- name: CreatePattern :one
INSERT INTO patterns (id, org_id, owner, title, task_type, domain, keywords, approach, expected_iterations, source_count, edited, enabled, held)
VALUES (@id, @org_id, @owner, @title, @task_type, @domain, @keywords, @approach, @expected_iterations, @source_count, @edited, NOT @held::boolean, @held::boolean)
RETURNING *;

-- name: MergePattern :one
-- One more run; what it confirms is added to what is left of the evidence.
UPDATE patterns SET title = @title, keywords = @keywords, approach = @approach, expected_iterations = @expected_iterations,
    version = version + @changed::int, source_count = source_count + 1, successes = successes + @confirmed::int,
    alpha = CASE WHEN @confirmed::int > 0 THEN pattern_faded(alpha, evidence_at) + @confirmed::int ELSE alpha END,
    beta = CASE WHEN @confirmed::int > 0 THEN pattern_faded(beta, evidence_at) ELSE beta END,
    evidence_at = CASE WHEN @confirmed::int > 0 THEN now() ELSE evidence_at END, changed_at = CASE WHEN @changed::int > 0 THEN clock_timestamp() ELSE changed_at END
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
  AND pattern_seen(@org_id, c.owner, c.visibility, @viewer::text, false)
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
-- A run has used it; a cancelled one says nothing.
UPDATE patterns SET uses = uses + 1, successes = successes + @success::int, failures = failures + @failure::int,
    alpha = CASE WHEN sqlc.arg(success)::int + sqlc.arg(failure)::int > 0 THEN pattern_faded(alpha, evidence_at) + @success::int ELSE alpha END,
    beta = CASE WHEN sqlc.arg(success)::int + sqlc.arg(failure)::int > 0 THEN pattern_faded(beta, evidence_at) + @failure::int ELSE beta END,
    evidence_at = CASE WHEN sqlc.arg(success)::int + sqlc.arg(failure)::int > 0 THEN now() ELSE evidence_at END
WHERE org_id = @org_id AND id = @id;

-- name: GetPattern :one
-- One that is deleted only for those who may bring it back.
SELECT sqlc.embed(p), pattern_confidence(p.alpha, p.beta, p.evidence_at)::double precision AS confidence
FROM patterns p WHERE p.org_id = @org_id AND p.id = @id;

-- name: FindPatterns :many
SELECT id, (id = @ref)::boolean AS exact FROM patterns
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix) AND (@deleted::boolean OR deleted_at IS NULL)
  AND pattern_seen(org_id, owner, visibility, @viewer::text, @sees_all::boolean)
ORDER BY exact DESC, id LIMIT 2;

-- name: ListPatterns :many
-- The last changed first, after a keyset position.
SELECT sqlc.embed(p), pattern_confidence(p.alpha, p.beta, p.evidence_at)::double precision AS confidence
FROM patterns p
WHERE p.org_id = @org_id AND p.deleted_at IS NULL
  AND pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text, @sees_all::boolean)
  AND (sqlc.narg(task_type)::text IS NULL OR p.task_type = sqlc.narg(task_type))
  AND (sqlc.narg(domain)::text IS NULL OR p.domain = sqlc.narg(domain))
  AND (sqlc.narg(enabled)::boolean IS NULL OR p.enabled = sqlc.narg(enabled))
  AND (sqlc.narg(visibility)::text IS NULL OR p.visibility = sqlc.narg(visibility))
  AND (@min_confidence::double precision = 0 OR pattern_confidence(p.alpha, p.beta, p.evidence_at) >= @min_confidence::double precision)
  AND (@query::text = '' OR position(lower(@query::text) IN lower(p.title)) > 0 OR p.keywords && @words::text[])
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (p.changed_at, p.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY p.changed_at DESC, p.id DESC LIMIT @max_rows;

-- name: PatternVersions :many
-- Those that somebody sees: its owner all, and others those since it was shared.
SELECT v.* FROM pattern_versions v JOIN patterns p ON p.id = v.pattern_id
WHERE v.org_id = @org_id AND v.pattern_id = @pattern_id AND (@manages::boolean OR v.version >= p.shared_version)
ORDER BY v.version DESC LIMIT @max_rows;

-- name: PatternVersion :one
SELECT * FROM pattern_versions WHERE org_id = @org_id AND pattern_id = @pattern_id AND version = @version;

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

-- name: PatternsToWord :many
-- Of each organisation the pattern that has waited longest of those whose text rules have changed
-- since a model worded it, with the model to ask.
SELECT sqlc.embed(p), s.provider, s.model FROM pattern_settings s JOIN patterns p ON p.org_id = s.org_id AND p.id = (
    SELECT q.id FROM patterns q WHERE q.org_id = s.org_id
      AND q.worded < q.version AND q.enabled AND NOT q.edited AND q.deleted_at IS NULL AND q.word_at <= clock_timestamp()
    ORDER BY q.word_at, q.id LIMIT 1)
WHERE s.enabled AND s.model <> ''
ORDER BY p.word_at LIMIT @max_rows;

-- name: WordPattern :execrows
-- A model's words for a version of a pattern; 0 if the pattern has another one now.
UPDATE patterns SET title = @title, keywords = @keywords, approach = @approach, version = version + 1, worded = version + 1, word_failures = 0, changed_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND version = @version AND NOT edited AND deleted_at IS NULL;

-- name: LeavePatternWorded :exec
-- A version keeps its words.
UPDATE patterns SET worded = @version, word_failures = 0 WHERE org_id = @org_id AND id = @id AND version = @version;

-- name: WordPatternLater :exec
-- A call failed.
UPDATE patterns SET word_at = clock_timestamp() + @pause::interval, word_failures = word_failures + 1 WHERE org_id = @org_id AND id = @id;

-- name: SharePattern :exec
-- The versions before are for those who may change it.
UPDATE patterns SET shared_version = CASE WHEN visibility = @visibility THEN shared_version ELSE version END,
    visibility = @visibility, changed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: EnablePattern :exec
UPDATE patterns SET enabled = @enabled, held = false, changed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: DeletePattern :exec
UPDATE patterns SET deleted_at = CASE WHEN @deleted::boolean THEN clock_timestamp() END, changed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id;

-- name: PurgePatterns :execrows
-- For good, those that were deleted long enough ago, with what quotes them.
WITH gone AS (SELECT p.id FROM patterns p WHERE p.deleted_at < clock_timestamp() - @keep::interval LIMIT 100 FOR UPDATE SKIP LOCKED),
     titles AS (UPDATE pattern_offers o SET title = '' FROM gone g WHERE o.pattern_id = g.id),
     proposals AS (DELETE FROM learn_proposals l USING gone g WHERE l.pattern_id = g.id),
     verdicts AS (DELETE FROM feedback f USING gone g WHERE f.subject = 'pattern' AND f.subject_id = g.id)
DELETE FROM patterns p USING gone g WHERE p.id = g.id;

-- name: PurgeLearned :one
-- Everything that was learned from a user's tasks, and everything that the user said.
WITH mine AS (DELETE FROM patterns p WHERE p.org_id = @org_id AND p.owner = @user_name RETURNING p.id),
     titles AS (UPDATE pattern_offers o SET title = '' FROM mine m WHERE o.org_id = @org_id AND o.pattern_id = m.id),
     proposals AS (DELETE FROM learn_proposals l WHERE l.org_id = @org_id AND (l.proposed_by = @user_name OR l.pattern_id IN (SELECT m.id FROM mine m)) RETURNING l.id),
     said AS (DELETE FROM feedback f WHERE f.org_id = @org_id AND (f.given_by = @user_name OR f.subject = 'pattern' AND f.subject_id IN (SELECT m.id FROM mine m)) RETURNING f.id)
SELECT (SELECT count(*) FROM mine)::bigint AS patterns, (SELECT count(*) FROM said)::bigint AS feedback, (SELECT count(*) FROM proposals)::bigint AS proposals;

-- name: RunReadUntrusted :one
-- Whether a run, one that it is part of or continues, or one that it gave out has read something
-- that anybody may have written: it was started by an event from outside, it called a tool that
-- returns such text, or a command of it reached a host.
WITH RECURSIVE up AS (
    SELECT t.id, t.parent_id, t.origin_id FROM tasks t WHERE t.org_id = @org_id AND t.id = @task_id
    UNION SELECT t.id, t.parent_id, t.origin_id FROM up JOIN tasks t ON t.id IN (up.parent_id, up.origin_id) WHERE t.org_id = @org_id
), down AS (
    SELECT t.id FROM tasks t WHERE t.org_id = @org_id AND t.id = @task_id
    UNION SELECT t.id FROM down JOIN tasks t ON t.parent_id = down.id WHERE t.org_id = @org_id
), runs AS (SELECT up.id FROM up UNION SELECT down.id FROM down)
SELECT (EXISTS (SELECT 1 FROM runs JOIN tasks t ON t.id = runs.id WHERE t.trigger_id NOT IN ('manual', '')
                  AND NOT EXISTS (SELECT 1 FROM triggers g WHERE g.id = t.trigger_id AND g.org_id = @org_id AND g.kind <> 'webhook'))
     OR EXISTS (SELECT 1 FROM runs JOIN steps s ON s.task_id = runs.id
                WHERE s.started_at IS NOT NULL AND (s.tool ~ '^(web_|http_|browser_|mcp__|rag_query$)' OR s.outcome ->> 'untrusted' = 'true'
                      OR jsonb_typeof(s.outcome #> '{egress,hosts}') = 'array')))::boolean;

-- name: BoundPatternLocks :exec
-- For this transaction: the start of a task does not wait long for the lock of a pattern.
SELECT set_config('lock_timeout', @wait::text, true);

-- name: PatternSeen :one
SELECT pattern_seen(@org_id::text, @owner::text, @visibility::text, @viewer::text, false)::boolean;

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
FROM patterns p WHERE p.org_id = @org_id AND p.deleted_at IS NULL AND pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text, @sees_all::boolean);

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
-- once for each of them, by their newest verdict. What was added or withdrawn since changes what
-- is left of the evidence.
UPDATE patterns p SET approvals = v.approvals, rejections = v.rejections,
    alpha = greatest(0.5, pattern_faded(p.alpha, p.evidence_at) + 2 * (v.approvals - p.approvals)),
    beta = greatest(0.5, pattern_faded(p.beta, p.evidence_at) + 2 * (v.rejections - p.rejections)), evidence_at = now()
FROM (SELECT count(*) FILTER (WHERE one.verdict = 'approve')::int AS approvals, count(*) FILTER (WHERE one.verdict = 'reject')::int AS rejections
      FROM (SELECT DISTINCT ON (f.given_by, coalesce(f.task_id, f.subject_id)) f.verdict
            FROM feedback f WHERE f.org_id = @org_id AND f.verdict IN ('approve', 'reject') AND (f.subject = 'pattern' AND f.subject_id = @id
               OR f.subject IN ('task', 'plan') AND f.task_id IN (
                  SELECT s.task_id FROM pattern_sources s WHERE s.pattern_id = @id
                  UNION SELECT o.task_id FROM pattern_offers o WHERE o.pattern_id = @id AND NOT o.held_out AND o.used IS NOT false))
            ORDER BY f.given_by, coalesce(f.task_id, f.subject_id), f.given_at DESC) AS one) AS v
WHERE p.org_id = @org_id AND p.id = @id AND (p.approvals, p.rejections) IS DISTINCT FROM (v.approvals, v.rejections);

-- name: ListFeedback :many
SELECT f.* FROM feedback f LEFT JOIN tasks t ON t.id = f.task_id LEFT JOIN patterns p ON f.subject = 'pattern' AND p.id = f.subject_id
LEFT JOIN memories m ON f.subject = 'memory' AND m.org_id = f.org_id AND m.id = f.subject_id
WHERE f.org_id = @org_id
  AND (sqlc.narg(task_id)::text IS NULL OR f.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(pattern_id)::text IS NULL OR f.subject = 'pattern' AND f.subject_id = sqlc.narg(pattern_id))
  AND (sqlc.narg(memory_id)::text IS NULL OR f.subject = 'memory' AND f.subject_id = sqlc.narg(memory_id))
  AND (f.given_by = @viewer::text OR t.id IS NOT NULL AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text))
       OR p.id IS NOT NULL AND pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text, @sees_all::boolean)
       OR m.id IS NOT NULL AND memory_seen(m.org_id, m.scope_kind, m.scope_id, m.only_for, @viewer::text, @sees_all::boolean))
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (f.given_at, f.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY f.given_at DESC, f.id DESC LIMIT @max_rows;

-- name: WithdrawProposals :exec
-- A newer verdict takes the place of an older correction that nobody has decided.
DELETE FROM learn_proposals WHERE org_id = @org_id AND feedback_id = @feedback_id AND state = 'open';

-- name: CreateProposal :one
INSERT INTO learn_proposals (id, org_id, feedback_id, pattern_id, task_id, owner, note, proposed_by)
VALUES (@id, @org_id, @feedback_id, @pattern_id, sqlc.narg(task_id), @owner, @note, @proposed_by) RETURNING *;

-- name: ListProposals :many
-- Those that somebody may decide, or proposed; pattern_title is empty for a pattern that they do not see.
SELECT l.*, CASE WHEN s.seen THEN coalesce(p.title, '') ELSE '' END::text AS pattern_title, s.seen::boolean AS pattern_seen
FROM learn_proposals l LEFT JOIN patterns p ON p.id = l.pattern_id
CROSS JOIN LATERAL (SELECT l.pattern_id = '' OR p.id IS NOT NULL AND pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text, @sees_all::boolean) AS seen) AS s
WHERE l.org_id = @org_id AND (sqlc.narg(state)::text IS NULL OR l.state = sqlc.narg(state))
  AND (@sees_all::boolean AND s.seen OR @viewer::text <> '' AND (l.owner = @viewer::text OR l.proposed_by = @viewer::text))
  AND (sqlc.narg(before_time)::timestamptz IS NULL OR (l.created_at, l.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY l.created_at DESC, l.id DESC LIMIT @max_rows;

-- name: FindProposals :many
SELECT l.id, (l.id = @ref)::boolean AS exact FROM learn_proposals l LEFT JOIN patterns p ON p.id = l.pattern_id
WHERE l.org_id = @org_id AND (l.id = @ref OR l.id LIKE @prefix)
  AND (@sees_all::boolean AND (l.pattern_id = '' OR p.id IS NOT NULL AND pattern_seen(p.org_id, p.owner, p.visibility, @viewer::text, true))
       OR @viewer::text <> '' AND (l.owner = @viewer::text OR l.proposed_by = @viewer::text))
ORDER BY exact DESC, l.id LIMIT 2;

-- name: LockProposal :one
SELECT * FROM learn_proposals WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: DecideProposal :one
UPDATE learn_proposals SET state = @state, decided_by = @decided_by, decided_at = clock_timestamp(), pattern_id = @pattern_id
WHERE org_id = @org_id AND id = @id RETURNING *;
