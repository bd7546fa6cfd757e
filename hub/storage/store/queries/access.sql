-- name: ListAccessRules :many
SELECT * FROM access_rules WHERE org_id = @org_id ORDER BY what;

-- name: PageAccessRules :many
SELECT * FROM access_rules WHERE org_id = @org_id AND what > @after_what::text ORDER BY what LIMIT @max_rows;

-- name: SetAccessRule :exec
INSERT INTO access_rules (org_id, what, networks, changed_by) VALUES (@org_id, @what, @networks, @changed_by)
ON CONFLICT (org_id, what) DO UPDATE SET networks = excluded.networks, changed_by = excluded.changed_by, changed_at = now();

-- name: DeleteAccessRule :execrows
DELETE FROM access_rules WHERE org_id = @org_id AND what = @what;
