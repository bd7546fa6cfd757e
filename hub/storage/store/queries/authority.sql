-- name: JailAuthorities :many
-- Those of a jail that are valid, newest first.
SELECT * FROM jail_authorities
WHERE org_id = @org_id AND jail_id = @jail_id AND expires_at > clock_timestamp()
ORDER BY created_at DESC, id DESC
LIMIT @max_rows;

-- name: InsertJailAuthority :exec
INSERT INTO jail_authorities (id, org_id, jail_id, certificate, sealed, hosts, expires_at)
VALUES (@id, @org_id, @jail_id, @certificate, @sealed, @hosts::text[], @expires_at);

-- name: LockJailAuthorities :exec
-- Until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('authorities of ' || @org_id::text || ' ' || @jail_id::text, 0));

-- name: DeleteExpiredAuthorities :execrows
DELETE FROM jail_authorities WHERE expires_at < clock_timestamp();

-- name: DeleteAuthoritiesOf :exec
-- All of a jail that is removed.
DELETE FROM jail_authorities WHERE org_id = @org_id AND jail_id = @jail_id;

-- name: JailIsLive :one
-- Reports whether a task that has not ended has a jail on a node, or a sync of knowledge that
-- runs.
SELECT (EXISTS (
    SELECT FROM tasks t
    WHERE t.org_id = @org_id AND t.node_id = @node_id::text AND t.jail_id = @jail_id AND t.finished_at IS NULL
) OR EXISTS (
    SELECT FROM knowledge_syncs s
    WHERE s.org_id = @org_id AND s.node_id = @node_id::text AND s.jail_id = @jail_id AND s.state = 'running'
))::boolean;
