-- name: DeferredSteps :many
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id AND state = 'deferred' ORDER BY number;

-- name: DropDeferredSteps :exec
UPDATE steps SET state = 'skipped', decision_reason = @reason, observation = @observation, finished_at = clock_timestamp()
WHERE org_id = @org_id AND task_id = @task_id AND state = 'deferred';

-- name: DropNamedDeferredSteps :many
-- Some of the deferred calls of a task; what it returns are those that were dropped.
UPDATE steps SET state = 'skipped', decision_reason = @reason, observation = @observation, finished_at = clock_timestamp()
WHERE org_id = @org_id AND task_id = @task_id AND state = 'deferred' AND id = ANY(@ids::text[])
RETURNING id;

-- name: ReleasedSteps :many
-- The calls of a task that were deferred until it was accepted, whatever their
-- state since.
SELECT * FROM steps WHERE org_id = @org_id AND task_id = @task_id AND (released OR state = 'deferred') ORDER BY number;

-- name: EgressOf :many
-- What the commands of a task sent out of its jail.
SELECT (outcome -> 'egress' -> 'hosts')::jsonb AS hosts FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND outcome -> 'egress' -> 'hosts' IS NOT NULL
ORDER BY number LIMIT 10000;

-- name: ReviewsToCarry :many
-- Reviews whose verdict has not been carried out. After a restore from a backup it may have
-- been: a person resumes the task first.
SELECT id, org_id, task_id, answer FROM inbox_items
WHERE kind = 'review' AND state = 'answered' AND answer IN ('accept', 'reject') AND carried_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM restored_tasks r WHERE r.task_id = inbox_items.task_id AND r.cleared_at IS NULL)
ORDER BY answered_at LIMIT @max_rows;

-- name: ReviewsToStill :many
-- Open reviews whose workspace state is not recorded.
SELECT i.id, i.org_id, i.task_id FROM inbox_items i
WHERE i.kind = 'review' AND i.state = 'open' AND i.binding = '{}'
  AND NOT EXISTS (SELECT 1 FROM restored_tasks r WHERE r.task_id = i.task_id AND r.cleared_at IS NULL)
ORDER BY i.asked_at LIMIT @max_rows;

-- name: BindReview :execrows
-- Stores what the verdict on an open review is valid for.
UPDATE inbox_items SET binding = @binding WHERE org_id = @org_id AND id = @id AND state = 'open';

-- name: ReviewCarried :execrows
UPDATE inbox_items SET carried_at = clock_timestamp() WHERE org_id = @org_id AND id = @id AND carried_at IS NULL;

-- name: SetReviewReason :exec
UPDATE tasks SET reason = @reason WHERE (org_id = @org_id) IS TRUE AND id = @id AND state = 'review_needed' AND reason <> @reason;
