-- name: CreateNodeExec :one
INSERT INTO node_execs (id, org_id, node_id, target, agent_id, jail_id, terminal, argv, dir, spec_sealed, reason, user_id, user_name, step_id)
VALUES (@id, @org_id, @node_id, @target, sqlc.narg(agent_id), @jail_id, @terminal, @argv, @dir, @spec_sealed, @reason, @user_id, @user_name, sqlc.narg(step_id))
RETURNING *;

-- name: StartNodeExec :exec
UPDATE node_execs SET state = 'running', started_at = clock_timestamp() WHERE org_id = @org_id AND id = @id AND state = 'pending';

-- name: EndNodeExec :execrows
UPDATE node_execs SET state = 'ended', end_reason = @end_reason, exit_code = @exit_code, signal = @signal, killed_by = @killed_by,
    error = @error, log_bytes = @log_bytes, members_left = @members_left, files = @files, finished_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state <> 'ended';

-- name: GetNodeExec :one
SELECT sqlc.embed(e), n.name AS node_name FROM node_execs e JOIN nodes n ON n.id = e.node_id
WHERE e.org_id = @org_id AND e.id = @id;

-- name: FindNodeExecs :many
SELECT id, (id = @ref)::boolean AS exact FROM node_execs
WHERE org_id = @org_id AND (id = @ref OR id LIKE @prefix) AND (@sees_all::boolean OR user_name = nullif(@viewer::text, ''))
ORDER BY exact DESC, id LIMIT 2;

-- name: ListNodeExecs :many
-- Newest first, after a keyset position.
SELECT sqlc.embed(e), n.name AS node_name FROM node_execs e JOIN nodes n ON n.id = e.node_id
WHERE e.org_id = @org_id AND (@node_id::text = '' OR e.node_id = @node_id) AND (NOT @live_only::boolean OR e.state <> 'ended')
  AND (@sees_all::boolean OR e.user_name = nullif(@viewer::text, ''))
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (e.created_at, e.id) < (sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY e.created_at DESC, e.id DESC LIMIT @max_rows;

-- name: LiveNodeExecs :many
-- For the replica that has the nodes' links, in any organisation.
SELECT * FROM node_execs WHERE node_id = ANY (@node_ids::text[]) AND state <> 'ended';

-- name: OldLiveNodeExecs :many
-- Those that a dead hub may have left, in any organisation.
SELECT * FROM node_execs WHERE state <> 'ended' AND created_at < clock_timestamp() - @older_than::interval;

-- name: OtherUserInJail :one
-- A user other than the given one who has a command or terminal in a jail now. Commands that
-- are part of a task's steps are not a person's.
SELECT user_name FROM node_execs
WHERE org_id = @org_id AND node_id = @node_id::text AND jail_id = @jail_id::text AND state <> 'ended' AND step_id IS NULL AND user_name <> @user_name::text
ORDER BY id LIMIT 1;

-- name: LiveExecsOfTasks :many
-- Commands that are part of steps of some tasks and have not ended.
SELECT e.id, e.node_id, s.task_id FROM node_execs e JOIN steps s ON s.id = e.step_id AND s.org_id = e.org_id
WHERE e.org_id = @org_id AND s.task_id = ANY (@task_ids::text[]) AND e.state <> 'ended' ORDER BY e.id;

-- name: OrphanedNodeExecs :many
-- Commands of steps that do not run any more, in any organisation.
SELECT e.* FROM node_execs e JOIN steps s ON s.id = e.step_id AND s.org_id = e.org_id
WHERE e.state <> 'ended' AND s.state <> 'started';
