-- name: GetPlan :one
-- The quotas of an organisation. name is empty if no plan was set.
SELECT coalesce(p.name, '')::text AS name, p.runs, coalesce(p.cycle_day, 1)::int AS cycle_day, coalesce(p.hard, false)::boolean AS hard,
       coalesce((SELECT jsonb_object_agg(l.user_name, jsonb_strip_nulls(jsonb_build_object('runs', l.runs, 'iterations', l.iterations, 'tokens', l.tokens, 'tool_calls', l.tool_calls)))
                 FROM quotas l WHERE l.org_id = @org_id), '{}')::jsonb AS quotas,
       coalesce(p.set_by, '')::text AS set_by, p.set_at,
       coalesce((SELECT array_agg(m.pattern ORDER BY m.pattern) FROM allowed_models m WHERE m.org_id = @org_id), '{}')::text[] AS models,
       coalesce((SELECT jsonb_object_agg(r.provider, r.calls_per_minute) FROM call_rates r WHERE r.org_id = @org_id), '{}')::jsonb AS call_rates
FROM (SELECT 1) AS one LEFT JOIN plans p ON p.org_id = @org_id;

-- name: PutPlan :exec
INSERT INTO plans (org_id, name, runs, cycle_day, hard, set_by) VALUES (@org_id, @name, sqlc.narg(runs), @cycle_day, @hard, @set_by)
ON CONFLICT (org_id) DO UPDATE SET name = excluded.name, runs = excluded.runs, cycle_day = excluded.cycle_day, hard = excluded.hard,
    set_by = excluded.set_by, set_at = excluded.set_at;

-- name: PutQuota :exec
INSERT INTO quotas (org_id, user_name, runs, iterations, tokens, tool_calls)
VALUES (@org_id, @user_name, sqlc.narg(runs), sqlc.narg(iterations), sqlc.narg(tokens), sqlc.narg(tool_calls))
ON CONFLICT (org_id, user_name) DO UPDATE SET runs = excluded.runs, iterations = excluded.iterations, tokens = excluded.tokens,
    tool_calls = excluded.tool_calls;

-- name: LockQuotas :exec
-- Locks what an organisation may use until the end of the transaction: one change at a time.
SELECT pg_advisory_xact_lock(hashtextextended('quotas:' || @org_id::text, 0));

-- name: DeleteQuota :exec
DELETE FROM quotas WHERE org_id = @org_id AND user_name = @user_name;

-- name: CarriedRuns :many
-- Of billing periods, the runs that were left of the one before; no row for one in which no
-- run began.
SELECT period, carried FROM plan_periods WHERE org_id = @org_id AND period = ANY (@periods::text[]);

-- name: CarryRuns :exec
-- What was left of the period before is kept from a period's first run on.
INSERT INTO plan_periods (org_id, period, carried) VALUES (@org_id, @period, @carried) ON CONFLICT (org_id, period) DO NOTHING;

-- name: CountRuns :exec
-- Adds the runs that users began on a day, and their sum for the organisation. Rows are locked
-- in the order of the names, that of the organisation first.
INSERT INTO quota_usage AS u (org_id, user_name, day, runs)
SELECT @org_id::text, r.name, to_date(@day::text, 'YYYY-MM-DD'), r.runs
FROM (SELECT unnest(@users::text[]) AS name, unnest(@runs::bigint[]) AS runs UNION ALL SELECT '', @total::bigint) AS r ORDER BY r.name COLLATE "C"
ON CONFLICT (org_id, user_name, day) DO UPDATE SET runs = u.runs + excluded.runs;

-- name: UsedSince :one
-- What an organisation, or one user, has used in days from one to before another.
SELECT coalesce(sum(runs), 0)::bigint AS runs, coalesce(sum(iterations), 0)::bigint AS iterations, coalesce(sum(tokens), 0)::bigint AS tokens,
       coalesce(sum(tool_calls), 0)::bigint AS tool_calls
FROM quota_usage WHERE org_id = @org_id AND user_name = @user_name AND day >= to_date(@since::text, 'YYYY-MM-DD') AND day < to_date(@until::text, 'YYYY-MM-DD');

-- name: UsedByUsers :many
-- UsedSince for each user, those with the most runs first.
SELECT user_name, sum(runs)::bigint AS runs, sum(iterations)::bigint AS iterations, sum(tokens)::bigint AS tokens, sum(tool_calls)::bigint AS tool_calls
FROM quota_usage WHERE org_id = @org_id AND day >= to_date(@since::text, 'YYYY-MM-DD') AND day < to_date(@until::text, 'YYYY-MM-DD') AND user_name <> ''
GROUP BY user_name ORDER BY 2 DESC, 1 LIMIT @max_rows;

-- name: ReservedByUsers :many
-- What runs that have not ended may still use, or have used if that is more, by user: without
-- what UsedSince counts already.
SELECT created_by AS user_name,
       sum(greatest(coalesce(granted_iterations, 0), iteration - resumed_at) - settled_iterations)::bigint AS iterations,
       sum(greatest(coalesce(granted_tokens, 0), limit_tokens) - settled_tokens)::bigint AS tokens,
       sum(greatest(coalesce(granted_tool_calls, 0) - settled_tool_calls, 0))::bigint AS tool_calls
FROM tasks WHERE org_id = @org_id AND finished_at IS NULL AND counted_in <> '' GROUP BY created_by;

-- name: QueuedRuns :one
-- Tasks that have not ended and whose run has yet to be counted: of the organisation, and of a
-- user.
SELECT count(*)::bigint AS organisation, count(*) FILTER (WHERE created_by = @user_name)::bigint AS own
FROM tasks WHERE org_id = @org_id AND finished_at IS NULL AND counted_in = '' AND agent_id <> '';

-- name: ReplaceAllowedModels :exec
WITH gone AS (
    DELETE FROM allowed_models WHERE org_id = @org_id AND pattern <> ALL (@models::text[])
)
INSERT INTO allowed_models (org_id, pattern) SELECT @org_id, unnest(@models::text[]) ON CONFLICT DO NOTHING;

-- name: PutCallRate :exec
INSERT INTO call_rates (org_id, provider, calls_per_minute) VALUES (@org_id, @provider, @calls)
ON CONFLICT (org_id, provider) DO UPDATE SET calls_per_minute = excluded.calls_per_minute, next_at = excluded.next_at;

-- name: DeleteCallRate :exec
DELETE FROM call_rates WHERE org_id = @org_id AND provider = @provider;

-- name: TakeTurn :one
-- Takes the next call's turn and returns how long it is until then; no row if
-- there is no limit. A turn that is further away than most is not taken. Calls
-- may come in bursts of up to a tenth of a minute's.
WITH rate AS (
    SELECT r.next_at, make_interval(secs => 60.0 / r.calls_per_minute) AS gap, make_interval(secs => 6) AS ahead,
           clock_timestamp() AS at
    FROM call_rates r WHERE r.org_id = @org_id AND r.provider = @provider FOR UPDATE
), turn AS (
    SELECT greatest(next_at, at - ahead) AS next_at, gap, at FROM rate
), taken AS (
    UPDATE call_rates r SET next_at = t.next_at + t.gap FROM turn t
    WHERE r.org_id = @org_id AND r.provider = @provider AND t.next_at - t.at <= @most::interval
)
SELECT greatest(next_at - at, interval '0')::interval AS wait FROM turn;
