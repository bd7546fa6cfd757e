-- name: CreateEgressCredential :one
-- No row if there is one of that name.
INSERT INTO egress_credentials (org_id, name, kind, hosts, ports, methods, paths, private, agents, settings, variable, roots, sealed, version, expires_at, created_by, rotated_by)
VALUES (@org_id, @name, @kind, @hosts::text[], @ports::int[], @methods::text[], @paths::text[], @private, @agents::text[], @settings, @variable, @roots, @sealed, @version,
        sqlc.narg(expires_at), @created_by, @created_by)
ON CONFLICT (org_id, name) DO NOTHING
RETURNING *;

-- name: CountEgressCredentials :one
SELECT count(*) FROM egress_credentials WHERE org_id = @org_id;

-- name: GetEgressCredential :one
SELECT * FROM egress_credentials WHERE org_id = @org_id AND name = @name;

-- name: EgressCredentials :many
-- Those of some names.
SELECT * FROM egress_credentials WHERE org_id = @org_id AND name = ANY (@names::text[]);

-- name: ListEgressCredentials :many
-- A page by name, after a keyset position, or one alone; with the time of the last request (the epoch for none).
SELECT sqlc.embed(c), coalesce((SELECT max(r.at) FROM credential_requests r WHERE r.org_id = c.org_id AND r.credential = c.name), 'epoch')::timestamptz AS used_at
FROM egress_credentials c
WHERE c.org_id = @org_id AND c.name > @after_name::text AND (@name::text = '' OR c.name = @name)
ORDER BY c.name LIMIT @max_rows;

-- name: RotateEgressCredential :one
UPDATE egress_credentials SET sealed = @sealed, version = @version, expires_at = sqlc.narg(expires_at), rotated_by = @rotated_by, rotated_at = clock_timestamp(),
    refresh_sealed = NULL, refreshed_at = NULL
WHERE org_id = @org_id AND name = @name AND kind = @kind
RETURNING *;

-- name: UpdateEgressCredential :one
-- No row if it has another version now.
UPDATE egress_credentials SET hosts = @hosts::text[], ports = @ports::int[], methods = @methods::text[], paths = @paths::text[], private = @private, agents = @agents::text[],
    settings = @settings, variable = @variable, roots = @roots, sealed = @sealed, version = @version, expires_at = sqlc.narg(expires_at),
    rotated_by = CASE WHEN @rotated::bool THEN @updated_by ELSE rotated_by END, rotated_at = CASE WHEN @rotated::bool THEN clock_timestamp() ELSE rotated_at END,
    refresh_sealed = CASE WHEN @rotated::bool THEN NULL ELSE refresh_sealed END, refreshed_at = CASE WHEN @rotated::bool THEN NULL ELSE refreshed_at END
WHERE org_id = @org_id AND name = @name AND version = @before
RETURNING *;

-- name: LockRefresh :exec
-- Locks until the end of the transaction: one hub at a time uses a credential's refresh token.
SELECT pg_advisory_xact_lock(hashtextextended('refresh:' || @org_id::text || ':' || @name::text, 0));

-- name: StoreRefreshToken :execrows
-- Nothing happens if the value was replaced meanwhile.
UPDATE egress_credentials SET refresh_sealed = @refresh_sealed::bytea, refreshed_at = clock_timestamp()
WHERE org_id = @org_id AND name = @name AND rotated_at = @rotated_at;

-- name: DeleteEgressCredential :one
DELETE FROM egress_credentials WHERE org_id = @org_id AND name = @name RETURNING *;

-- name: TasksInJail :many
-- The tasks that commands in a jail may be of now: also of one that waits for a worker again,
-- whose jobs go on.
SELECT * FROM tasks
WHERE org_id = @org_id AND jail_id = @jail_id AND finished_at IS NULL
  AND (state IN ('starting', 'running', 'waiting', 'awaiting_approval', 'needs_input', 'review_needed') OR state IN ('queued', 'paused') AND started_at IS NOT NULL)
ORDER BY id;

-- name: JailsOfNode :many
-- Those of some jails that tasks of an organisation have had on a node, or that a sync reads in.
SELECT j.jail::text AS jail_id FROM unnest(@jails::text[]) AS j (jail)
WHERE EXISTS (SELECT 1 FROM tasks t WHERE t.jail_id = j.jail COLLATE "C" AND t.node_id = @node_id::text AND t.org_id = @org_id)
   OR EXISTS (SELECT 1 FROM knowledge_syncs y WHERE y.jail_id = j.jail COLLATE "C" AND y.jail_id <> '' AND y.node_id = @node_id::text AND y.org_id = @org_id);

-- name: StepsOfExecs :many
-- The steps that commands on a node belong to.
SELECT s.exec_id, s.id, s.task_id, s.jail_id FROM steps s
WHERE s.org_id = @org_id AND s.node_id = @node_id::text AND s.id = ANY (@steps::text[]) AND s.exec_id = ANY (@execs::text[]);

-- name: RecordCredentialRequest :execrows
-- Nothing happens if it was recorded before.
INSERT INTO credential_requests (org_id, id, credential, node_id, jail_id, exec_id, task_id, step_id, method, host, path, status, sent_bytes, received_bytes, at, duration, problem)
VALUES (@org_id, @id, @credential, @node_id, @jail_id, @exec_id, sqlc.narg(task_id), sqlc.narg(step_id), @method, @host, @path, @status, @sent_bytes, @received_bytes, @at,
        @duration::interval, @problem)
ON CONFLICT (org_id, id) DO NOTHING;

-- name: SettleCredentialRequest :exec
UPDATE credential_requests SET status = @status, problem = @problem WHERE org_id = @org_id AND id = @id;

-- name: TypedCredentials :many
-- Those that tasks may have typed into pages, the newest first.
SELECT credential FROM credential_requests
WHERE org_id = @org_id AND task_id = ANY (@tasks::text[]) AND method = 'TYPE' AND status <> 403
GROUP BY credential ORDER BY max(at) DESC LIMIT @max_rows;

-- name: ListCredentialRequests :many
-- A page of those that somebody sees, newest first, after a keyset position.
SELECT r.* FROM credential_requests r
WHERE r.org_id = @org_id
  AND (@credential::text = '' OR r.credential = @credential)
  AND (@task_id::text = '' OR r.task_id = @task_id)
  AND (@sees_all::boolean OR EXISTS (SELECT 1 FROM tasks t WHERE t.id = r.task_id AND task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text)))
  AND (sqlc.narg(before_at)::timestamptz IS NULL OR (r.at, r.id) < (sqlc.narg(before_at)::timestamptz, @before_id::text))
ORDER BY r.at DESC, r.id DESC LIMIT @max_rows;

-- name: PruneCredentialRequests :execrows
-- Deletes the oldest of those that are stored for longer.
DELETE FROM credential_requests WHERE (org_id, id) IN (
    SELECT r.org_id, r.id FROM credential_requests r WHERE r.stored_at < clock_timestamp() - @keep::interval
      AND NOT EXISTS (SELECT 1 FROM legal_holds l WHERE l.task_id = r.task_id) ORDER BY r.stored_at LIMIT @max_rows);
