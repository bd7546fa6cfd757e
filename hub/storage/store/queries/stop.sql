-- name: CreateStop :one
-- Opens a stop, unless one is open for its subject, one for the same cause was dismissed
-- lately, or the agent has so many of the kind. No row is returned then.
INSERT INTO inbox_items (id, org_id, kind, task_id, agent_id, tool, category, arguments, preview, why, binding, on_expiry, detail, subject, cause)
SELECT @id, @org_id, @kind::text, @task_id, @agent_id, '', 'safe', '{}', @preview, @why, '{}', '', @detail::jsonb, @subject::text, @cause::text
WHERE NOT EXISTS (SELECT 1 FROM inbox_items d
                  WHERE d.org_id = @org_id AND d.kind = @kind AND d.subject = @subject AND d.cause = @cause AND d.answer = 'dismiss'
                    AND d.answered_at > clock_timestamp() - @quiet::interval)
  AND (@most::int = 0 OR (SELECT count(*) FROM inbox_items o WHERE o.org_id = @org_id AND o.kind = @kind AND o.agent_id = @agent_id AND o.state = 'open') < @most::int)
ON CONFLICT (org_id, kind, subject) WHERE state = 'open' AND subject <> '' DO NOTHING
RETURNING id;

-- name: WithdrawStop :one
SELECT withdraw_stop(@org_id::text, @kind::text, @subject::text, @why::text)::bigint AS withdrawn;

-- name: PutStoppedTask :exec
INSERT INTO stopped_tasks (task_id, org_id, kind, subject) VALUES (@task_id, @org_id, @kind, @subject)
ON CONFLICT (task_id) DO UPDATE SET kind = excluded.kind, subject = excluded.subject, stopped_at = excluded.stopped_at;

-- name: LockStoppedTasks :many
-- The paused tasks that wait for a stop, locked in the order of their ids.
SELECT t.* FROM tasks t
WHERE t.org_id = @org_id AND t.state = 'paused'
  AND t.id IN (SELECT s.task_id FROM stopped_tasks s WHERE s.org_id = @org_id AND s.kind = @kind AND s.subject = @subject)
ORDER BY t.id FOR UPDATE;

-- name: CountStoppedTasks :one
SELECT count(*)::int FROM stopped_tasks s WHERE s.org_id = @org_id AND s.kind = @kind AND s.subject = @subject;

-- name: PutBudgetRefusal :exec
INSERT INTO budget_refusals (task_id, org_id, scope, object_id, period, limit_micros, spent_micros, amount_micros)
VALUES (@task_id, @org_id, @scope, @object_id, @period, @limit_micros, @spent_micros, @amount_micros)
ON CONFLICT (task_id) DO UPDATE SET scope = excluded.scope, object_id = excluded.object_id, period = excluded.period,
    limit_micros = excluded.limit_micros, spent_micros = excluded.spent_micros, amount_micros = excluded.amount_micros, refused_at = excluded.refused_at;

-- name: TakeBudgetRefusal :one
DELETE FROM budget_refusals WHERE org_id = @org_id AND task_id = @task_id RETURNING *;

-- name: EndedProviderKeys :many
-- Keys of providers that have expired, and for which no stop was opened since they were
-- connected.
SELECT c.org_id, c.provider, c.connected_at, c.expires_at FROM credentials c
WHERE NOT c.login AND c.expires_at <= clock_timestamp()
  AND NOT EXISTS (SELECT 1 FROM inbox_items i WHERE i.org_id = c.org_id AND i.kind = 'provider' AND i.subject = c.provider
                  AND (i.state = 'open' OR i.asked_at > c.connected_at))
ORDER BY c.org_id, c.provider LIMIT @max_rows;

-- name: ExpiredEgressCredentials :many
-- Credentials of the egress that have expired, and for which no stop was opened since
-- they were rotated.
SELECT c.org_id, c.name, c.version, c.expires_at, c.rotated_by FROM egress_credentials c
WHERE c.expires_at <= clock_timestamp()
  AND NOT EXISTS (SELECT 1 FROM inbox_items i WHERE i.org_id = c.org_id AND i.kind = 'credential' AND i.subject = c.name
                  AND (i.state = 'open' OR i.asked_at > c.expires_at AND i.cause = c.version))
ORDER BY c.org_id, c.name LIMIT @max_rows;

-- name: UnwaitedStops :many
-- Stops of budgets and providers that no task waits for: two tasks went on at the same
-- moment, and neither saw that it was the last.
SELECT i.org_id, i.kind, i.subject FROM inbox_items i
WHERE i.state = 'open' AND i.kind IN ('budget', 'provider')
  AND NOT EXISTS (SELECT 1 FROM stopped_tasks s WHERE s.org_id = i.org_id AND s.kind = i.kind AND s.subject = i.subject)
  AND NOT (i.kind = 'provider' AND key_ended(i.org_id, i.subject))
  AND NOT (i.kind = 'provider' AND i.detail ->> 'reason' = 'outage' AND EXISTS (
        SELECT 1 FROM tasks t WHERE t.org_id = i.org_id AND t.outage_provider = i.detail ->> 'provider' AND t.outage_since IS NOT NULL AND t.finished_at IS NULL))
ORDER BY i.id LIMIT @max_rows;

-- name: OpenStopsOfAgent :many
-- The open stops of a kind that an agent has.
SELECT * FROM inbox_items WHERE org_id = @org_id AND agent_id = @agent_id AND kind = @kind AND state = 'open' AND subject <> '' ORDER BY id;

-- name: EndedBudgetPeriods :many
-- Open stops of budgets of a day or a month that is over.
SELECT org_id, subject FROM inbox_items
WHERE state = 'open' AND kind = 'budget'
  AND (detail ->> 'every' = 'day' AND detail ->> 'period' < to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD')
    OR detail ->> 'every' = 'month' AND detail ->> 'period' < to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM'))
ORDER BY id LIMIT @max_rows;

-- name: LockOpenTasksOfVersion :many
-- The tasks of an agent that have not ended and run with a version, locked in the order
-- of their ids.
SELECT id FROM tasks WHERE org_id = @org_id AND agent_id = @agent_id AND agent_version = @version AND finished_at IS NULL ORDER BY id FOR UPDATE;

-- name: MoveOpenTasksToVersion :execrows
-- Has the tasks of an agent that have not ended, and run with one version, go on with
-- another.
UPDATE tasks SET agent_version = @to_version WHERE org_id = @org_id AND agent_id = @agent_id AND agent_version = @from_version AND finished_at IS NULL;
