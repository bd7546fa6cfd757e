-- name: AppendAudit :exec
INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason, address, user_agent)
VALUES (@org_id, @actor_kind, @actor_id, @action, @object_kind, @object_id, @before, @after, @reason, @address, @user_agent);

-- name: ListAudit :many
-- Newest first, below an id; '' and 0 match all.
SELECT * FROM audit_entries
WHERE org_id = @org_id AND (@before_id::bigint = 0 OR id < @before_id)
  AND (@object_id::text = '' OR object_id = @object_id)
  AND (@actor_id::text = '' OR actor_id = @actor_id)
  AND (@action::text = '' OR action = @action)
ORDER BY id DESC LIMIT @max_rows;
