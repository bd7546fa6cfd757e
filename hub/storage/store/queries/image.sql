-- name: PutRegistry :one
INSERT INTO registries (org_id, host, username, sealed, mirror, set_by)
VALUES (@org_id, @host, @username, @sealed, @mirror, @set_by)
ON CONFLICT (org_id, host) DO UPDATE SET username = excluded.username, sealed = excluded.sealed, mirror = excluded.mirror,
    set_by = excluded.set_by, set_at = excluded.set_at
RETURNING *;

-- name: Registries :many
-- Those of some hosts.
SELECT * FROM registries WHERE org_id = @org_id AND host = ANY (@hosts::text[]);

-- name: ListRegistries :many
-- A page by host, after a keyset position.
SELECT * FROM registries WHERE org_id = @org_id AND host > @after_host::text ORDER BY host LIMIT @max_rows;

-- name: CountRegistries :one
SELECT count(*) FROM registries WHERE org_id = @org_id;

-- name: DeleteRegistry :one
DELETE FROM registries WHERE org_id = @org_id AND host = @host RETURNING *;

-- name: PutImageRules :one
INSERT INTO image_rules (org_id, allow, require_digest, allow_root, set_by) VALUES (@org_id, @allow::text[], @require_digest, @allow_root, @set_by)
ON CONFLICT (org_id) DO UPDATE SET allow = excluded.allow, require_digest = excluded.require_digest, allow_root = excluded.allow_root, set_by = excluded.set_by, set_at = clock_timestamp()
RETURNING *;

-- name: GetImageRules :one
SELECT * FROM image_rules WHERE org_id = @org_id;

-- name: PinnedImages :many
-- The images that tasks which have not ended keep on a node, as name and digest, with how
-- many tasks keep each and the ids of some of them.
SELECT image, image_digest, count(*) AS tasks, ((array_agg(id ORDER BY id))[1:@max_ids::int])::text[] AS task_ids FROM tasks
WHERE org_id = @org_id AND node_id = @node_id::text AND image <> '' AND finished_at IS NULL
GROUP BY image, image_digest;

-- name: NodesWithImages :many
-- The nodes of all organisations whose daemon knows images.
SELECT * FROM nodes WHERE revoked_at IS NULL AND capability >= @capability::int ORDER BY id;

-- name: BeginImageSetup :one
-- No row if that setup is running already.
INSERT INTO image_setups (id, org_id, node_id, agent_id, image, setup, jail_id, lines, started_by)
VALUES (@id, @org_id, @node_id, @agent_id, @image, @setup, @jail_id, @lines, @started_by)
ON CONFLICT (node_id, image, setup) WHERE state = 'running' DO NOTHING
RETURNING *;

-- name: RunningImageSetup :one
SELECT * FROM image_setups WHERE org_id = @org_id AND node_id = @node_id AND image = @image AND setup = @setup AND state = 'running';

-- name: GetImageSetup :one
SELECT * FROM image_setups WHERE org_id = @org_id AND id = @id;

-- name: MoveImageSetup :execrows
-- Notes the command that a running setup is at, and that its hub goes on with it.
UPDATE image_setups SET line = @line, exec_id = sqlc.narg(exec_id), seen_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state = 'running';

-- name: EndImageSetup :execrows
UPDATE image_setups SET state = @state, error = @error, ended_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state = 'running';

-- name: EndImageSetupsOf :many
-- Those of a scope that is killed: organisation, node or agent. Their hubs see it and end
-- their commands.
UPDATE image_setups SET state = 'failed', error = @error, ended_at = clock_timestamp()
WHERE org_id = @org_id AND state = 'running'
  AND (@scope::text = 'organisation' OR @scope = 'node' AND node_id = @object_id OR @scope = 'agent' AND agent_id = @object_id)
RETURNING *;

-- name: ClearImageSetup :exec
UPDATE image_setups SET cleared_at = clock_timestamp() WHERE org_id = @org_id AND id = @id AND state <> 'running';

-- name: LeftImageSetups :many
-- Setups of all organisations that nobody goes on with and that may have left something on
-- their node.
SELECT * FROM image_setups
WHERE cleared_at IS NULL AND seen_at < clock_timestamp() - @silent::interval
ORDER BY seen_at LIMIT @max_rows;

-- name: OldImageSetups :many
-- Setups of all organisations that were cleared before a time and whose jails are still on
-- their nodes. Which ones come first is left to chance: those of nodes that are not
-- connected are not in the way of others.
SELECT s.* FROM image_setups s JOIN nodes n ON n.id = s.node_id
WHERE s.cleared_at < @before::timestamptz AND s.removed_at IS NULL AND n.revoked_at IS NULL
ORDER BY random() LIMIT @max_rows;

-- name: RemovedImageSetup :exec
UPDATE image_setups SET removed_at = clock_timestamp() WHERE org_id = @org_id AND id = @id AND cleared_at IS NOT NULL;

-- name: AbandonImageSetup :execrows
-- Ends a setup whose hub has not been seen for some time.
UPDATE image_setups SET state = 'failed', error = @error, ended_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND state = 'running' AND seen_at < clock_timestamp() - @silent::interval;

-- name: PutSignatureRule :one
INSERT INTO signature_rules (org_id, pattern, public_keys, issuer, identity, identity_regexp, trusted_root, set_by)
VALUES (@org_id, @pattern, @public_keys, @issuer, @identity, @identity_regexp, @trusted_root, @set_by)
ON CONFLICT (org_id, pattern) DO UPDATE SET public_keys = excluded.public_keys, issuer = excluded.issuer, identity = excluded.identity,
    identity_regexp = excluded.identity_regexp, trusted_root = excluded.trusted_root, set_by = excluded.set_by, set_at = excluded.set_at
RETURNING *;

-- name: SignatureRules :many
-- Those with some patterns.
SELECT * FROM signature_rules WHERE org_id = @org_id AND pattern = ANY (@patterns::text[]);

-- name: ListSignatureRules :many
-- A page by pattern, after a keyset position.
SELECT * FROM signature_rules WHERE org_id = @org_id AND pattern > @after_pattern::text ORDER BY pattern LIMIT @max_rows;

-- name: CountSignatureRules :one
SELECT count(*) FROM signature_rules WHERE org_id = @org_id;

-- name: DeleteSignatureRule :one
DELETE FROM signature_rules WHERE org_id = @org_id AND pattern = @pattern RETURNING *;

-- name: PutVerifiedImage :exec
INSERT INTO verified_images (org_id, digest, rule) VALUES (@org_id, @digest, @rule)
ON CONFLICT (org_id, digest, rule) DO UPDATE SET verified_at = excluded.verified_at;

-- name: IsVerifiedImage :one
SELECT EXISTS (SELECT FROM verified_images WHERE org_id = @org_id AND digest = @digest AND rule = @rule AND verified_at > @since);

-- name: DeleteVerifiedImages :exec
-- Those of an organisation whose rules have changed.
DELETE FROM verified_images WHERE org_id = @org_id;

-- name: DeleteOldVerifiedImages :exec
-- Those of all organisations that were verified before a time.
DELETE FROM verified_images WHERE verified_at < @before;

-- name: StartWorkspaceCommand :exec
INSERT INTO workspace_commands (org_id, jail_id, digest, position, exec_id) VALUES (@org_id, @jail_id, @digest, @position, @exec_id);

-- name: WorkspaceCommands :many
-- The ids of the commands that were started, in their order.
SELECT exec_id FROM workspace_commands WHERE org_id = @org_id AND jail_id = @jail_id AND digest = @digest ORDER BY position;

-- name: ForgetWorkspaceCommand :exec
-- One that did not run.
DELETE FROM workspace_commands WHERE org_id = @org_id AND jail_id = @jail_id AND digest = @digest AND exec_id = @exec_id;

-- name: ForgetWorkspaceCommands :exec
-- Those of a workspace in which one failed: the next task runs all of them again.
DELETE FROM workspace_commands d WHERE d.org_id = @org_id AND d.jail_id = @jail_id AND d.digest = @digest
  AND EXISTS (SELECT FROM workspace_commands f WHERE f.org_id = d.org_id AND f.jail_id = d.jail_id AND f.digest = d.digest AND f.exec_id = @exec_id);
