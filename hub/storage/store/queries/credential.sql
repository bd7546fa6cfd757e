-- name: PutCredential :one
INSERT INTO credentials (org_id, provider, base_url, sealed, hint, connected_by, expires_at, login)
VALUES (@org_id, @provider, @base_url, @sealed, @hint, @connected_by, sqlc.narg(expires_at), @login)
ON CONFLICT (org_id, provider) DO UPDATE SET base_url = excluded.base_url, sealed = excluded.sealed, hint = excluded.hint,
    connected_by = excluded.connected_by, connected_at = excluded.connected_at, expires_at = excluded.expires_at, refused_at = NULL,
    login = excluded.login, refreshed_at = NULL
RETURNING *;

-- name: GetCredential :one
SELECT * FROM credentials WHERE org_id = @org_id AND provider = @provider;

-- name: LockCredential :one
-- Locks the token of a login while it is renewed: one hub at a time.
SELECT * FROM credentials WHERE org_id = @org_id AND provider = @provider FOR UPDATE;

-- name: RenewCredential :one
-- Another token of the same login.
UPDATE credentials SET sealed = @sealed, expires_at = @expires_at, refreshed_at = clock_timestamp(), refused_at = NULL
WHERE org_id = @org_id AND provider = @provider RETURNING *;

-- name: EndLogin :one
-- The provider does not renew the token any more.
UPDATE credentials SET sealed = @sealed, refused_at = coalesce(refused_at, clock_timestamp())
WHERE org_id = @org_id AND provider = @provider RETURNING *;

-- name: ConnectedProviders :many
-- Of the providers, those that are connected.
SELECT c.org_id, c.provider
FROM (SELECT unnest(@orgs::text[]) AS org_id, unnest(@providers::text[]) AS provider) AS u
JOIN credentials c ON c.org_id = u.org_id AND c.provider = u.provider;

-- name: ListCredentials :many
-- A page by name, after a keyset position, with the last call that each was
-- used for; the epoch for none.
SELECT sqlc.embed(c), coalesce((SELECT m.started_at FROM model_calls m WHERE m.org_id = c.org_id AND m.provider = c.provider
                                ORDER BY m.started_at DESC LIMIT 1), 'epoch')::timestamptz AS last_used_at
FROM credentials c WHERE c.org_id = @org_id AND c.provider COLLATE "C" > @after_name::text ORDER BY c.provider COLLATE "C" LIMIT @max_rows;

-- name: DeleteCredential :one
DELETE FROM credentials WHERE org_id = @org_id AND provider = @provider RETURNING *;

-- name: RefuseCredential :execrows
-- The provider refuses the key that was connected, or the token that was
-- renewed, at that time. No row is changed if that is known.
UPDATE credentials SET refused_at = clock_timestamp()
WHERE org_id = @org_id AND provider = @provider AND refused_at IS NULL AND coalesce(refreshed_at, connected_at) = @connected_at::timestamptz;

-- name: ProviderUsage :many
-- The cost of models since a time, by model.
SELECT provider, model, count(*)::bigint AS calls, sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
       sum(cache_read_tokens)::bigint AS cache_read_tokens, sum(cache_write_tokens)::bigint AS cache_write_tokens,
       sum(cost_micros)::bigint AS cost_micros, count(*) FILTER (WHERE basis IN ('estimated', 'lost'))::bigint AS estimated
FROM model_calls
WHERE org_id = @org_id AND started_at >= @since::timestamptz AND (sqlc.narg(provider)::text IS NULL OR provider = sqlc.narg(provider))
GROUP BY provider, model ORDER BY provider, model;

-- name: PutPrice :exec
INSERT INTO prices (org_id, provider, model, input, output, cache_read, cache_write, set_by)
VALUES (@org_id, @provider, @model, @input, @output, @cache_read, @cache_write, @set_by)
ON CONFLICT (org_id, provider, model) DO UPDATE SET input = excluded.input, output = excluded.output,
    cache_read = excluded.cache_read, cache_write = excluded.cache_write, set_by = excluded.set_by, set_at = excluded.set_at;

-- name: ListPrices :many
-- The prices that the operator has set for some of a provider's models.
SELECT * FROM prices WHERE org_id = @org_id AND provider = @provider AND model = ANY (@models::text[]);

-- name: AllPrices :many
SELECT * FROM prices WHERE org_id = @org_id ORDER BY provider, model;

-- name: GetLeasedCall :one
-- As GetLeasedTask, with the data that a call of one provider needs: its
-- credential, the prices that the operator has set for its models, as
-- {"model": [input, output, cache_read, cache_write]}, and what was estimated and counted of
-- the prompt of the task's latest call of that provider, as [estimated, counted, cached].
SELECT sqlc.embed(t), (c.provider IS NOT NULL)::bool AS connected, c.base_url, c.sealed, c.connected_at, c.expires_at,
       c.login, c.refreshed_at, c.refused_at,
       coalesce((SELECT jsonb_object_agg(p.model, jsonb_build_array(p.input, p.output, p.cache_read, p.cache_write)) FROM prices p
                 WHERE p.org_id = t.org_id AND p.provider = @provider), '{}')::jsonb AS prices,
       coalesce((SELECT ARRAY[m.estimated_tokens, m.input_tokens + m.cache_read_tokens + m.cache_write_tokens, m.cache_read_tokens + m.cache_write_tokens]
                 FROM model_calls m WHERE m.task_id = t.id AND m.provider = @provider AND m.basis = 'reported'
                 ORDER BY m.started_at DESC LIMIT 1), '{0,0,0}')::bigint[] AS seen
FROM tasks t LEFT JOIN credentials c ON c.org_id = t.org_id AND c.provider = @provider
WHERE t.id = @id AND t.attempt = @attempt AND t.lease_hash = @lease_hash AND t.lease_expires_at > clock_timestamp();

-- name: SealedWithin :many
-- Encrypted secrets of that time that must be redacted everywhere, each with
-- the object that it is bound to: keys of providers, secrets of triggers and of
-- destinations, passwords of registries, values of credentials of the egress.
SELECT v.kind, v.org_id, v.id, v.address, v.sealed FROM (
    SELECT CASE WHEN c.login THEN 'login' ELSE 'credential' END AS kind, c.org_id, c.provider AS id, c.base_url AS address, c.sealed,
           greatest(c.connected_at, c.refreshed_at) AS changed FROM credentials c
    UNION ALL
    SELECT 'trigger', t.org_id, t.id, '', s.sealed, t.updated_at FROM triggers t CROSS JOIN LATERAL (VALUES (t.sealed), (CASE WHEN t.before_until > clock_timestamp() THEN t.sealed_before END)) AS s (sealed)
    UNION ALL
    SELECT 'destination', d.org_id, d.id, '', d.sealed, d.updated_at FROM destinations d
    UNION ALL
    SELECT 'registry', r.org_id, r.host, '', r.sealed, r.set_at FROM registries r
    UNION ALL
    SELECT 'egress credential', e.org_id, e.name, '', s.sealed, s.changed FROM egress_credentials e
    CROSS JOIN LATERAL (VALUES (e.sealed, e.rotated_at), (e.refresh_sealed, e.refreshed_at)) AS s (sealed, changed)
) v WHERE v.sealed IS NOT NULL AND v.changed >= clock_timestamp() - @age::interval;
