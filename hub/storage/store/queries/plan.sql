-- name: GetPlan :one
-- The quotas of an organisation. name is empty if no plan was set.
SELECT coalesce(p.name, '')::text AS name, p.runs, coalesce(p.set_by, '')::text AS set_by, p.set_at,
       coalesce((SELECT array_agg(m.pattern ORDER BY m.pattern) FROM allowed_models m WHERE m.org_id = @org_id), '{}')::text[] AS models,
       coalesce((SELECT jsonb_object_agg(r.provider, r.calls_per_minute) FROM call_rates r WHERE r.org_id = @org_id), '{}')::jsonb AS call_rates
FROM (SELECT 1) AS one LEFT JOIN plans p ON p.org_id = @org_id;

-- name: PutPlan :exec
INSERT INTO plans (org_id, name, runs, set_by) VALUES (@org_id, @name, sqlc.narg(runs), @set_by)
ON CONFLICT (org_id) DO UPDATE SET name = excluded.name, runs = excluded.runs, set_by = excluded.set_by, set_at = excluded.set_at;

-- name: PlanPeriods :many
-- Of the months, those in which a run began.
SELECT period, runs, carried FROM plan_periods WHERE org_id = @org_id AND period = ANY (@periods::text[]);

-- name: CountRuns :exec
-- Adds runs to a month. carried is what was left of the one before; it is kept
-- from the month's first run on.
INSERT INTO plan_periods (org_id, period, runs, carried) VALUES (@org_id, @period, @runs, @carried)
ON CONFLICT (org_id, period) DO UPDATE SET runs = plan_periods.runs + excluded.runs;

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
