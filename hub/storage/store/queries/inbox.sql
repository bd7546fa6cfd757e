-- name: CreateInboxItem :one
INSERT INTO inbox_items (id, org_id, kind, task_id, step_id, agent_id, tool, category, arguments, preview, why, binding,
                         expires_at, on_expiry, detail, shape, offered, decision)
VALUES (@id, @org_id, @kind, @task_id, sqlc.narg(step_id), @agent_id, @tool, @category, @arguments, @preview, @why, @binding,
        clock_timestamp() + sqlc.narg(timeout)::interval, @on_expiry, coalesce(sqlc.narg(detail)::jsonb, '{}'), @shape, @offered, coalesce(sqlc.narg(decision)::jsonb, '{}'))
RETURNING *;

-- name: GetInboxItem :one
SELECT sqlc.embed(i), coalesce(t.title, '')::text AS task_title, coalesce(t.created_by, '')::text AS submitted_by, coalesce(a.name, '')::text AS agent_name, coalesce(agent_owners(i.agent_id), '{}')::text[] AS agent_owners,
       coalesce(s.number, 0)::int AS step_number, coalesce(s.reasoning, '')::text AS reasoning, coalesce(s.observation, '')::text AS observation,
       coalesce(s.node_id, t.node_id) AS node_id, coalesce(s.exec_id, '')::text AS exec_id, coalesce(n.name, '')::text AS node_name, s.asked_state,
       coalesce(s.asked_record, '')::text AS asked_record
FROM inbox_items i LEFT JOIN tasks t ON t.id = i.task_ref LEFT JOIN steps s ON s.id = i.step_id LEFT JOIN agents a ON a.id = i.agent_id
     LEFT JOIN nodes n ON n.id = coalesce(s.node_id, t.node_id)
WHERE i.org_id = @org_id AND i.id = @id;

-- name: FindInboxItems :many
SELECT i.id, (i.id = @ref)::boolean AS exact FROM inbox_items i
WHERE i.org_id = @org_id AND (i.id = @ref OR i.id LIKE @prefix) AND (@sees_all::boolean OR inbox_seen(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @viewer::text))
ORDER BY exact DESC, i.id LIMIT 2;

-- name: InboxItemOwned :one
-- Whether an item is a user's; no row if there is no such item.
SELECT (@sees_all::boolean OR inbox_owned(org_id, kind, subject, task_id, agent_id, @viewer::text))::boolean FROM inbox_items WHERE org_id = @org_id AND id = @id;

-- name: ListInboxItems :many
-- Newest first, after a keyset position; NULL filters match all.
SELECT sqlc.embed(i), coalesce(t.title, '')::text AS task_title, coalesce(t.created_by, '')::text AS submitted_by, coalesce(a.name, '')::text AS agent_name, coalesce(agent_owners(i.agent_id), '{}')::text[] AS agent_owners,
       coalesce(s.number, 0)::int AS step_number, coalesce(s.reasoning, '')::text AS reasoning, coalesce(s.observation, '')::text AS observation,
       coalesce(s.node_id, t.node_id) AS node_id, coalesce(s.exec_id, '')::text AS exec_id, coalesce(n.name, '')::text AS node_name, s.asked_state,
       coalesce(s.asked_record, '')::text AS asked_record
FROM inbox_items i LEFT JOIN tasks t ON t.id = i.task_ref LEFT JOIN steps s ON s.id = i.step_id LEFT JOIN agents a ON a.id = i.agent_id
     LEFT JOIN nodes n ON n.id = coalesce(s.node_id, t.node_id)
WHERE i.org_id = @org_id
  AND (sqlc.narg(task_id)::text IS NULL OR i.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(agent_id)::text IS NULL OR i.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(kinds)::text[] IS NULL OR i.kind = ANY (sqlc.narg(kinds)::text[]))
  AND (sqlc.narg(states)::text[] IS NULL OR i.state = ANY (sqlc.narg(states)::text[]))
  AND (NOT @dangerous::boolean OR inbox_dangerous(i.category, i.decision))
  AND (@words::text = '' OR strpos(lower(concat_ws(' ', i.id, i.preview, i.why, i.tool, i.subject, i.arguments::text, t.title, a.name)), lower(@words)) > 0)
  AND (@mine::text = '' OR inbox_owned(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @mine))
  AND (@sees_all::boolean OR inbox_seen(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @viewer::text))
  AND (@snoozed::text = 'any'
       OR (@snoozed::text = 'only') = (i.state = 'open' AND EXISTS (SELECT FROM inbox_snoozes z WHERE z.item_id = i.id AND z.user_id = @user_id AND z.until > clock_timestamp())))
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (i.asked_at, i.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY i.asked_at DESC, i.id DESC LIMIT @max_rows;

-- name: ListInboxItemsByPlace :many
-- By place, after a keyset position; NULL filters match all.
SELECT sqlc.embed(i), coalesce(t.title, '')::text AS task_title, coalesce(t.created_by, '')::text AS submitted_by, coalesce(a.name, '')::text AS agent_name, coalesce(agent_owners(i.agent_id), '{}')::text[] AS agent_owners,
       coalesce(s.number, 0)::int AS step_number, coalesce(s.reasoning, '')::text AS reasoning, coalesce(s.observation, '')::text AS observation,
       coalesce(s.node_id, t.node_id) AS node_id, coalesce(s.exec_id, '')::text AS exec_id, coalesce(n.name, '')::text AS node_name, s.asked_state,
       coalesce(s.asked_record, '')::text AS asked_record
FROM inbox_items i LEFT JOIN tasks t ON t.id = i.task_ref LEFT JOIN steps s ON s.id = i.step_id LEFT JOIN agents a ON a.id = i.agent_id
     LEFT JOIN nodes n ON n.id = coalesce(s.node_id, t.node_id)
WHERE i.org_id = @org_id
  AND (sqlc.narg(task_id)::text IS NULL OR i.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(agent_id)::text IS NULL OR i.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(kinds)::text[] IS NULL OR i.kind = ANY (sqlc.narg(kinds)::text[]))
  AND (sqlc.narg(states)::text[] IS NULL OR i.state = ANY (sqlc.narg(states)::text[]))
  AND (NOT @dangerous::boolean OR inbox_dangerous(i.category, i.decision))
  AND (@words::text = '' OR strpos(lower(concat_ws(' ', i.id, i.preview, i.why, i.tool, i.subject, i.arguments::text, t.title, a.name)), lower(@words)) > 0)
  AND (@mine::text = '' OR inbox_owned(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @mine))
  AND (@sees_all::boolean OR inbox_seen(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @viewer::text))
  AND (@snoozed::text = 'any'
       OR (@snoozed::text = 'only') = (i.state = 'open' AND EXISTS (SELECT FROM inbox_snoozes z WHERE z.item_id = i.id AND z.user_id = @user_id AND z.until > clock_timestamp())))
  AND (i.place, i.id) > (@after_place::bigint, @after_id::text)
ORDER BY i.place, i.id LIMIT @max_rows;

-- name: CountInboxItems :many
-- The items of each kind that a list without a filter by kind would have.
SELECT i.kind, count(*)::int AS items
FROM inbox_items i LEFT JOIN tasks t ON t.id = i.task_ref LEFT JOIN agents a ON a.id = i.agent_id
WHERE i.org_id = @org_id
  AND (sqlc.narg(task_id)::text IS NULL OR i.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(agent_id)::text IS NULL OR i.agent_id = sqlc.narg(agent_id))
  AND (sqlc.narg(states)::text[] IS NULL OR i.state = ANY (sqlc.narg(states)::text[]))
  AND (NOT @dangerous::boolean OR inbox_dangerous(i.category, i.decision))
  AND (@words::text = '' OR strpos(lower(concat_ws(' ', i.id, i.preview, i.why, i.tool, i.subject, i.arguments::text, t.title, a.name)), lower(@words)) > 0)
  AND (@mine::text = '' OR inbox_owned(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @mine))
  AND (@sees_all::boolean OR inbox_seen(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @viewer::text))
  AND (@snoozed::text = 'any'
       OR (@snoozed::text = 'only') = (i.state = 'open' AND EXISTS (SELECT FROM inbox_snoozes z WHERE z.item_id = i.id AND z.user_id = @user_id AND z.until > clock_timestamp())))
GROUP BY i.kind ORDER BY i.kind;

-- name: CountAlike :many
-- How many open items that somebody sees are like each.
SELECT i.alike, count(*)::int AS items FROM inbox_items i
WHERE i.org_id = @org_id AND i.state = 'open' AND i.alike <> '' AND i.alike = ANY (@alike::text[]) AND (@sees_all::boolean OR inbox_seen(i.org_id, i.kind, i.subject, i.task_id, i.agent_id, @viewer::text))
GROUP BY i.alike;

-- name: LockInboxItem :one
-- The item, and whether its time is over on the database's clock.
SELECT sqlc.embed(i), coalesce(i.expires_at <= clock_timestamp(), false)::boolean AS over
FROM inbox_items i WHERE i.org_id = @org_id AND i.id = @id FOR UPDATE;

-- name: AnswerInboxItem :one
UPDATE inbox_items SET state = 'answered', answer = @answer, reply = @reply, reply_sealed = sqlc.narg(reply_sealed),
    changed_arguments = sqlc.narg(changed_arguments), reason = @reason, answered_by = @answered_by, answered_at = clock_timestamp(),
    without_paths = @without_paths
WHERE org_id = @org_id AND id = @id AND state = 'open'
RETURNING *;

-- name: ExpireInboxItem :one
UPDATE inbox_items SET state = 'expired', answered_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state = 'open' AND expires_at <= clock_timestamp()
RETURNING *;

-- name: ExpiredInboxItems :many
SELECT id, org_id, task_id FROM inbox_items WHERE state = 'open' AND expires_at <= clock_timestamp()
ORDER BY expires_at LIMIT @max_rows;

-- name: OpenInboxItem :one
-- The open item of a step.
SELECT * FROM inbox_items WHERE org_id = @org_id AND step_id = @step_id::text AND state = 'open';

-- name: NewestInboxItem :one
-- The newest item of a step, in any state.
SELECT * FROM inbox_items WHERE org_id = @org_id AND step_id = @step_id::text ORDER BY asked_at DESC, id DESC LIMIT 1;

-- name: SetParkedReason :exec
UPDATE tasks SET reason = @reason WHERE org_id = @org_id AND id = @id AND state IN ('awaiting_approval', 'needs_input');

-- name: ParkedTasks :many
-- Tasks on a node that have begun and wait for a person.
SELECT * FROM tasks
WHERE org_id = @org_id AND node_id = @node_id::text AND started_at IS NOT NULL AND state IN ('awaiting_approval', 'needs_input', 'paused');

-- name: CountApprovals :one
-- The recent decisions on calls of a shape.
SELECT count(*) FILTER (WHERE answer = 'approve')::int AS approved, count(*) FILTER (WHERE answer = 'reject')::int AS rejected
FROM inbox_items
WHERE org_id = @org_id AND agent_id = @agent_id AND tool = @tool AND shape = @shape AND shape <> ''
  AND answered_at > clock_timestamp() - @since::interval;

-- name: OfferOnce :execrows
INSERT INTO auto_offers (org_id, agent_id, tool, shape, item_id) VALUES (@org_id, @agent_id, @tool, @shape, @item_id)
ON CONFLICT DO NOTHING;

-- name: PutInboxChanges :execrows
-- Stores what the call of an open item would do, and returns 0 if the item is closed.
WITH item AS (
    UPDATE inbox_items i SET changes_digest = @digest WHERE i.org_id = @org_id AND i.id = @item_id AND i.state = 'open' RETURNING i.id, i.org_id
)
INSERT INTO inbox_changes (item_id, org_id, changes, unknown) SELECT item.id, item.org_id, @changes::jsonb, @unknown::text FROM item
ON CONFLICT (item_id) DO UPDATE SET changes = excluded.changes, unknown = excluded.unknown, looked_at = clock_timestamp();

-- name: InboxChanges :one
SELECT * FROM inbox_changes WHERE org_id = @org_id AND item_id = @item_id;

-- name: OpenApprovalsOfTools :many
-- The open approvals of a task for calls of some tools, with their steps.
SELECT i.id AS item_id, sqlc.embed(s) FROM inbox_items i JOIN steps s ON s.id = i.step_id
WHERE i.org_id = @org_id AND i.task_id = @task_id AND i.kind = 'approval' AND i.state = 'open' AND i.tool = ANY (@tools::text[])
ORDER BY i.asked_at, i.id;

-- name: InboxItemPosition :one
-- The position of an item among those of its task, from 1.
SELECT count(*)::int FROM inbox_items
WHERE org_id = @org_id AND task_id = @task_id AND (asked_at, id) <= (@asked_at::timestamptz, @id::text);

-- name: CountSimilarDecisions :one
-- The recent decisions of an agent's calls of a tool, or of a shape if that is set, other than
-- of one item.
SELECT count(*) FILTER (WHERE answer = 'approve')::int AS approved, count(*) FILTER (WHERE answer = 'reject')::int AS rejected
FROM inbox_items
WHERE org_id = @org_id AND agent_id = @agent_id AND tool = @tool AND state = 'answered' AND kind = 'approval' AND id <> @id
  AND (@shape::text = '' OR shape = @shape) AND answered_at > clock_timestamp() - @since::interval;

-- name: LastSimilarRejection :one
SELECT id, answered_by, reason, answered_at FROM inbox_items
WHERE org_id = @org_id AND agent_id = @agent_id AND tool = @tool AND state = 'answered' AND kind = 'approval' AND answer = 'reject' AND id <> @id
  AND (@shape::text = '' OR shape = @shape) AND answered_at > clock_timestamp() - @since::interval
ORDER BY answered_at DESC LIMIT 1;

-- name: NewestCallOf :one
-- The arguments with which an agent last called a tool with success.
SELECT arguments FROM steps
WHERE org_id = @org_id AND task_id = @task_id AND tool = @tool AND state = 'succeeded'
ORDER BY number DESC LIMIT 1;

-- name: FilesChangedByStep :one
SELECT coalesce(sum(files), 0)::int FROM step_changes WHERE org_id = @org_id AND step_id = @step_id;

-- name: TaskFailures :many
-- The last failures of a task, newest first, of its newest events.
SELECT e.time, coalesce(e.payload ->> 'error_code', '')::text AS error_code,
       coalesce(e.payload ->> 'message', e.payload ->> 'cause', '')::text AS message
FROM (SELECT * FROM events n WHERE n.task_id = @task_id AND n.org_id = @org_id AND n.time <= @until::timestamptz ORDER BY n.seq DESC LIMIT 200) e
WHERE e.type = ANY (@types::text[])
ORDER BY e.seq DESC LIMIT @max_rows;

-- name: EarlierRequests :many
-- The newest requests to a host, with its port as URLs have it, of an agent's last tasks; found
-- is how many there are.
SELECT s.id, s.task_id, s.number, s.tool, coalesce(s.arguments ->> 'url', '')::text AS url, s.started_at, s.state, s.error_code, s.observation,
       (count(*) OVER ())::int AS found
FROM (SELECT t.id FROM tasks t WHERE t.org_id = @org_id AND t.agent_id = @agent_id ORDER BY t.created_at DESC, t.id DESC LIMIT @max_tasks) AS recent
JOIN steps s ON s.task_id = recent.id
WHERE s.org_id = @org_id AND s.tool = ANY (@tools::text[]) AND s.started_at < @before::timestamptz
  AND lower(substring(s.arguments ->> 'url' FROM '^[A-Za-z]+://(?:[^/?#@]*@)?([^/?#]*)')) = lower(@host)
ORDER BY s.started_at DESC, s.id DESC LIMIT @max_rows;

-- name: SnoozeInboxItem :execrows
-- Does nothing to an item that is closed, or expires before the time.
INSERT INTO inbox_snoozes (item_id, user_id, org_id, until)
SELECT i.id, @user_id, i.org_id, @until::timestamptz FROM inbox_items i
WHERE i.org_id = @org_id AND i.id = @item_id AND i.state = 'open' AND (i.expires_at IS NULL OR i.expires_at > @until::timestamptz)
ON CONFLICT (item_id, user_id) DO UPDATE SET until = excluded.until;

-- name: EndInboxSnooze :exec
DELETE FROM inbox_snoozes WHERE org_id = @org_id AND item_id = @item_id AND user_id = @user_id;

-- name: InboxSnoozes :many
-- Until when a user has snoozed items; those whose time has come are left out.
SELECT item_id, until FROM inbox_snoozes
WHERE org_id = @org_id AND user_id = @user_id AND item_id = ANY (@item_ids::text[]) AND until > clock_timestamp();

-- name: NextInboxSnooze :one
-- When the next open item that a user has snoozed comes back.
SELECT z.until FROM inbox_snoozes z JOIN inbox_items i ON i.id = z.item_id
WHERE z.org_id = @org_id AND z.user_id = @user_id AND z.until > clock_timestamp() AND i.state = 'open'
ORDER BY z.until LIMIT 1;

-- name: CreateInboxAttachment :exec
INSERT INTO inbox_attachments (item_id, number, org_id, path, size_bytes, sha256, problem, content_sealed)
VALUES (@item_id, @number, @org_id, @path, @size_bytes, @sha256, @problem, sqlc.narg(content_sealed));

-- name: InboxAttachments :many
SELECT number, path, size_bytes, sha256, problem FROM inbox_attachments WHERE org_id = @org_id AND item_id = @item_id ORDER BY number;

-- name: GetInboxAttachment :one
SELECT * FROM inbox_attachments WHERE org_id = @org_id AND item_id = @item_id AND number = @number;

-- name: KeptAttachmentBytes :one
-- How many bytes of attachments of a task's questions are stored.
SELECT coalesce(sum(a.size_bytes), 0)::bigint FROM inbox_attachments a JOIN inbox_items i ON i.id = a.item_id
WHERE i.org_id = @org_id AND i.task_id = @task_id AND a.content_sealed IS NOT NULL;

-- name: PruneInboxAttachments :execrows
UPDATE inbox_attachments SET content_sealed = NULL WHERE (item_id, number) IN (
    SELECT a.item_id, a.number FROM inbox_attachments a JOIN inbox_items i ON i.id = a.item_id
    WHERE a.content_sealed IS NOT NULL AND i.state <> 'open' AND coalesce(i.answered_at, i.asked_at) < clock_timestamp() - @keep::interval
      AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = i.task_id) LIMIT @max_rows);

-- name: InboxItemsOfSteps :many
-- The newest item of each of some steps of a task that has one.
SELECT DISTINCT ON (step_id) step_id::text AS step_id, id FROM inbox_items
WHERE org_id = @org_id AND task_id = @task_id AND step_id = ANY (@step_ids::text[])
ORDER BY step_id, asked_at DESC, id DESC;

-- name: OpenItemsOfTask :many
-- What a task waits for, the newest first: also what stopped it together with others.
SELECT i.id, i.kind FROM inbox_items i
WHERE i.org_id = @org_id AND i.state = 'open'
  AND (i.task_id = @task_id
       OR EXISTS (SELECT FROM stopped_tasks s WHERE s.task_id = @task_id AND s.org_id = i.org_id AND s.kind = i.kind AND s.subject = i.subject))
ORDER BY i.asked_at DESC, i.id DESC LIMIT 50;
