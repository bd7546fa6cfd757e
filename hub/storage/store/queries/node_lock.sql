-- name: TakeNodeLock :one
-- Returns no row if the lock is held.
INSERT INTO node_locks (id, org_id, node_id, user_id, user_name, reason, exec_id)
VALUES (@id, @org_id, @node_id, @user_id, @user_name, @reason, sqlc.narg(exec_id))
ON CONFLICT (node_id) WHERE released_at IS NULL DO NOTHING
RETURNING *;

-- name: TakeTaskLock :one
-- Takes the lock of a node for a step of a running task. Returns no row if the lock is
-- held, the task holds another, or the task does not run any more.
INSERT INTO node_locks (id, org_id, node_id, user_id, user_name, reason, task_id, step_id, expires_at, agent_hidden)
SELECT @id, t.org_id, @node_id, t.agent_id, @user_name, @reason, t.id, @step_id::text, now() + @lasts::interval,
       NOT EXISTS (SELECT 1 FROM agents a WHERE a.id = t.agent_id AND a.visibility = 'organisation')
FROM tasks t JOIN steps s ON s.org_id = t.org_id AND s.task_id = t.id
WHERE t.org_id = @org_id AND t.id = @task_id AND t.finished_at IS NULL AND s.id = @step_id::text AND s.state = 'started'
ON CONFLICT DO NOTHING
RETURNING *;

-- name: LockOfStep :one
-- The lock that a step took, whether it is held or not.
SELECT sqlc.embed(l), n.name AS node_name FROM node_locks l JOIN nodes n ON n.id = l.node_id
WHERE l.org_id = @org_id AND l.step_id = @step_id::text;

-- name: LockOfTask :one
-- The lock that a task holds.
SELECT sqlc.embed(l), n.name AS node_name FROM node_locks l JOIN nodes n ON n.id = l.node_id
WHERE l.org_id = @org_id AND l.task_id = @task_id::text AND l.released_at IS NULL AND l.expires_at > now();

-- name: LockOfTaskAt :one
-- The lock that a task held at a time.
SELECT sqlc.embed(l), n.name AS node_name FROM node_locks l JOIN nodes n ON n.id = l.node_id
WHERE l.org_id = @org_id AND l.task_id = @task_id::text AND l.taken_at <= @at AND l.expires_at > @at
  AND (l.released_at IS NULL OR l.released_at > @at)
ORDER BY l.taken_at DESC LIMIT 1;

-- name: ReleaseTaskLock :one
-- Releases the lock that a task holds.
UPDATE node_locks l SET released_at = now(), released_by = @released_by FROM nodes n
WHERE l.org_id = @org_id AND l.task_id = @task_id::text AND l.released_at IS NULL AND n.id = l.node_id
RETURNING sqlc.embed(l), n.name AS node_name;

-- name: ReleaseOverLocks :many
-- Releases the locks whose time is over, and those that an ended task left, in any
-- organisation.
UPDATE node_locks SET released_at = now(), released_by = CASE WHEN expires_at <= now() THEN 'the end of its time' ELSE 'the end of its task' END
WHERE id IN (SELECT l.id FROM node_locks l JOIN tasks t ON t.id = l.task_id
             WHERE l.released_at IS NULL AND (l.expires_at <= now() OR t.finished_at IS NOT NULL)
             ORDER BY l.id FOR UPDATE OF l SKIP LOCKED)
RETURNING org_id, node_id, task_id;

-- name: SeenLockTasks :many
-- Those of some tasks that somebody sees.
SELECT t.id FROM tasks t WHERE t.org_id = @org_id AND t.id = ANY (@ids::text[])
  AND (@sees_all::boolean OR task_seen(t.org_id, t.created_by, t.assignee, t.agent_id, @viewer::text));

-- name: HeldNodeLock :one
SELECT * FROM node_locks WHERE org_id = @org_id AND node_id = @node_id AND released_at IS NULL;

-- name: HeldNodeLocks :many
SELECT * FROM node_locks WHERE org_id = @org_id AND released_at IS NULL;

-- name: ReleaseNodeLock :execrows
UPDATE node_locks SET released_at = now(), released_by = @released_by
WHERE org_id = @org_id AND id = @id AND released_at IS NULL;

-- name: ReleaseExecLock :execrows
-- Releases the lock that a command took for itself.
UPDATE node_locks SET released_at = now(), released_by = @released_by
WHERE org_id = @org_id AND exec_id = @exec_id::text AND released_at IS NULL;

-- name: ListNodeLocks :many
-- Held ones first, then newest first, after a keyset position.
SELECT sqlc.embed(l), n.name AS node_name FROM node_locks l JOIN nodes n ON n.id = l.node_id
WHERE l.org_id = @org_id AND (@node_id::text = '' OR l.node_id = @node_id) AND (@released::boolean OR l.released_at IS NULL)
  AND (sqlc.narg(before_time)::timestamptz IS NULL
       OR (l.released_at IS NULL, l.taken_at, l.id) < (@before_standing::boolean, sqlc.narg(before_time)::timestamptz, @before_id::text))
ORDER BY (l.released_at IS NULL) DESC, l.taken_at DESC, l.id DESC LIMIT @max_rows;

-- name: DrainNode :execrows
UPDATE nodes SET drained_at = coalesce(drained_at, now()), drained_by = @drained_by, drain_reason = @drain_reason
WHERE org_id = @org_id AND id = @id;

-- name: UndrainNode :execrows
UPDATE nodes SET drained_at = NULL, drained_by = '', drain_reason = ''
WHERE org_id = @org_id AND id = @id AND drained_at IS NOT NULL;

-- name: CountActiveOnNode :one
SELECT count(*) FROM tasks
WHERE org_id = @org_id AND node_id = @node_id::text
  AND admitted_at IS NOT NULL;
