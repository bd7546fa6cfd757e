-- +goose Up

-- What earlier runs have taught: patterns, their sources, where they were offered and what
-- came of it, what people said of results, and why runs failed.

-- An ended task that nothing was learned from yet. The trigger below fills it, and the
-- leader empties it. A cancelled task teaches nothing; what it was offered ends with it.
CREATE TABLE learn_queue (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id  text COLLATE "C" NOT NULL,
    queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- How often it failed; one that fails too often is left alone.
    failures int NOT NULL DEFAULT 0
);
CREATE INDEX learn_queue_next ON learn_queue (queued_at) WHERE failures < 5;

-- +goose StatementBegin
CREATE FUNCTION queue_to_learn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO learn_queue (task_id, org_id) VALUES (NEW.id, NEW.org_id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tasks_ended_learn AFTER UPDATE OF state ON tasks
    FOR EACH ROW WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL)
    EXECUTE FUNCTION queue_to_learn();

-- The settings of an organisation; one without a row has the defaults.
CREATE TABLE pattern_settings (
    org_id         text COLLATE "C" PRIMARY KEY REFERENCES organisations (id),
    -- Whether patterns are drawn, and offered to tasks.
    enabled        boolean NOT NULL DEFAULT true,
    -- Of a hundred matches, how many are held out: not offered, for comparison.
    hold_out       int NOT NULL DEFAULT 10 CHECK (hold_out BETWEEN 0 AND 100),
    min_confidence double precision NOT NULL DEFAULT 0.7 CHECK (min_confidence BETWEEN 0.5 AND 1),
    changed_by     text NOT NULL DEFAULT '',
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE patterns (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- The user whose tasks taught it.
    owner      text NOT NULL,
    -- Who sees it besides, and whose tasks it is offered to.
    visibility text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'team', 'organisation')),
    version    int NOT NULL DEFAULT 1 CHECK (version > 0),
    title      text NOT NULL CHECK (title <> ''),
    task_type  text COLLATE "C" NOT NULL,
    domain     text COLLATE "C" NOT NULL,
    -- In lower case, without duplicates.
    keywords   text[] NOT NULL CHECK (cardinality(keywords) BETWEEN 1 AND 32),
    -- Plan, tools, pitfalls, signs of success and notes: see pattern.Approach.
    approach   jsonb NOT NULL,
    expected_iterations double precision NOT NULL DEFAULT 0,
    -- A person has edited it: runs no longer change its text.
    edited     boolean NOT NULL DEFAULT false,
    enabled    boolean NOT NULL DEFAULT true,
    -- It was drawn from a run that read what anybody may have written, and no person has
    -- decided yet whether it is offered. A held one is not enabled.
    held       boolean NOT NULL DEFAULT false CHECK (NOT (held AND enabled)),
    -- The first version that people other than its owner see.
    shared_version int NOT NULL DEFAULT 1,
    -- Runs that are sources of it.
    source_count int NOT NULL DEFAULT 0,
    -- Runs that confirmed it: those after the first that did the same, and those that used it.
    successes  int NOT NULL DEFAULT 0,
    failures   int NOT NULL DEFAULT 0,
    -- What people said of it and of its runs.
    approvals  int NOT NULL DEFAULT 0,
    rejections int NOT NULL DEFAULT 0,
    -- The parameters of the Beta posterior at evidence_at: Jeffreys' prior, a run as one and a
    -- person's verdict as two. What is added later is added to what is left of them then.
    alpha      double precision NOT NULL DEFAULT 0.5 CHECK (alpha >= 0.5),
    beta       double precision NOT NULL DEFAULT 0.5 CHECK (beta >= 0.5),
    -- How often it was offered, and how often the run used it.
    offers     int NOT NULL DEFAULT 0,
    uses       int NOT NULL DEFAULT 0,
    -- The last evidence: from then on confidence decays.
    evidence_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Deleted; kept for an hour, so that it can be undone.
    deleted_at timestamptz
);
CREATE INDEX patterns_newest ON patterns (org_id, changed_at DESC, id DESC);
CREATE INDEX patterns_of_type ON patterns (org_id, owner, task_type) WHERE deleted_at IS NULL;
CREATE INDEX patterns_words ON patterns USING gin (keywords) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX patterns_deleted ON patterns (deleted_at) WHERE deleted_at IS NOT NULL;

-- A parameter of a pattern's confidence now: its evidence loses half of its weight every 90 days.
-- +goose StatementBegin
CREATE FUNCTION pattern_faded(parameter double precision, evidence_at timestamptz) RETURNS double precision STABLE LANGUAGE sql AS $$
    SELECT 0.5 + (parameter - 0.5) * power(0.5, greatest(extract(epoch FROM now() - evidence_at)::double precision, 0) / 7776000)
$$;
-- +goose StatementEnd

-- The confidence in a pattern now: the mean of its Beta distribution, whose evidence loses
-- half of its weight every 90 days without use.
-- +goose StatementBegin
CREATE FUNCTION pattern_confidence(alpha double precision, beta double precision, evidence_at timestamptz) RETURNS double precision STABLE LANGUAGE sql AS $$
    SELECT (0.5 + (alpha - 0.5) * power(0.5, greatest(extract(epoch FROM now() - evidence_at)::double precision, 0) / 7776000))
         / (1 + (alpha + beta - 1) * power(0.5, greatest(extract(epoch FROM now() - evidence_at)::double precision, 0) / 7776000))
$$;
-- +goose StatementEnd

-- Reports whether somebody sees a pattern: its owner; with visibility team, who is in a team
-- with its owner, and administrators; with visibility organisation, everybody. As of what
-- belongs to a user (see scope_seen), administrators do not see what is private.
-- +goose StatementBegin
CREATE FUNCTION pattern_seen(org text, pattern_owner text, level text, who text, administrator boolean) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT who <> '' AND (pattern_owner = who OR level = 'organisation' OR level = 'team' AND (administrator OR EXISTS (
        SELECT 1 FROM users o JOIN team_members om ON om.user_id = o.id JOIN team_members mm ON mm.team_id = om.team_id
        JOIN users m ON m.id = mm.user_id WHERE o.org_id = org AND o.name = pattern_owner AND m.name = who)))
$$;
-- +goose StatementEnd

CREATE TABLE pattern_versions (
    pattern_id text COLLATE "C" NOT NULL REFERENCES patterns (id) ON DELETE CASCADE,
    version    int NOT NULL,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    title      text NOT NULL,
    approach   jsonb NOT NULL,
    keywords   text[] NOT NULL,
    -- drawn, merged, edited or corrected
    change     text NOT NULL CHECK (change IN ('drawn', 'merged', 'edited', 'corrected')),
    -- The user, or the task that it was drawn from.
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pattern_id, version)
);

-- The runs that taught a pattern. A run teaches one pattern, once.
CREATE TABLE pattern_sources (
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    pattern_id text COLLATE "C" NOT NULL REFERENCES patterns (id) ON DELETE CASCADE,
    iterations int NOT NULL,
    added_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX pattern_sources_of ON pattern_sources (pattern_id, added_at DESC);

-- The pattern that matched a task at its start, and what came of it.
CREATE TABLE pattern_offers (
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    pattern_id text COLLATE "C" NOT NULL,
    version    int NOT NULL,
    title      text NOT NULL,
    similarity double precision NOT NULL,
    confidence double precision NOT NULL,
    -- Held out: it matched and was not offered, for comparison.
    held_out   boolean NOT NULL,
    offered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- At the end of the task; succeeded is null for a cancelled one.
    used       boolean,
    succeeded  boolean,
    ended_at   timestamptz
);
CREATE INDEX pattern_offers_of ON pattern_offers (pattern_id, offered_at DESC);
CREATE INDEX pattern_offers_newest ON pattern_offers (org_id, offered_at DESC);

-- What people said of a task, step, plan or pattern: each person once.
CREATE TABLE feedback (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    subject    text NOT NULL CHECK (subject IN ('task', 'step', 'plan', 'pattern', 'memory')),
    subject_id text COLLATE "C" NOT NULL,
    -- The task of a task, step or plan.
    task_id    text COLLATE "C" REFERENCES tasks (id),
    verdict    text NOT NULL CHECK (verdict IN ('approve', 'correct', 'reject')),
    correction text NOT NULL DEFAULT '',
    given_by   text NOT NULL,
    given_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (org_id, subject, subject_id, given_by)
);
CREATE INDEX feedback_newest ON feedback (org_id, given_at DESC, id DESC);
CREATE INDEX feedback_of_task ON feedback (task_id) WHERE task_id IS NOT NULL;

-- What a correction would change, until a person accepts or refuses it.
CREATE TABLE learn_proposals (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL REFERENCES organisations (id),
    feedback_id text COLLATE "C" NOT NULL REFERENCES feedback (id) ON DELETE CASCADE,
    -- The pattern that gets the note; empty for a new one of the task.
    pattern_id  text COLLATE "C" NOT NULL DEFAULT '',
    task_id     text COLLATE "C" REFERENCES tasks (id),
    -- Who may decide it, besides administrators.
    owner       text NOT NULL,
    note        text NOT NULL CHECK (note <> ''),
    proposed_by text NOT NULL,
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'accepted', 'refused')),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided_by  text NOT NULL DEFAULT '',
    decided_at  timestamptz
);
CREATE INDEX learn_proposals_newest ON learn_proposals (org_id, created_at DESC, id DESC);
CREATE INDEX learn_proposals_of_feedback ON learn_proposals (feedback_id);

-- Why a run failed, by rules over its record.
CREATE TABLE task_failures (
    task_id    text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    class      text NOT NULL,
    -- Failures with the same signature are similar. It is a digest, which quotes nothing.
    signature  text COLLATE "C" NOT NULL,
    failed_at  timestamptz NOT NULL
);
CREATE INDEX task_failures_alike ON task_failures (org_id, signature, failed_at DESC);

-- +goose Down
DROP TABLE task_failures;
DROP TABLE learn_proposals;
DROP TABLE feedback;
DROP TABLE pattern_offers;
DROP TABLE pattern_sources;
DROP TABLE pattern_versions;
DROP TABLE patterns;
DROP FUNCTION pattern_seen(text, text, text, text, boolean);
DROP FUNCTION pattern_confidence(double precision, double precision, timestamptz);
DROP FUNCTION pattern_faded(double precision, timestamptz);
DROP TABLE pattern_settings;
DROP TRIGGER tasks_ended_learn ON tasks;
DROP FUNCTION queue_to_learn();
DROP TABLE learn_queue;
