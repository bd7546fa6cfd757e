-- +goose Up

-- What people set; where nobody did, the hub's own limits hold.
CREATE TABLE budgets (
    org_id       text NOT NULL REFERENCES organisations (id),
    scope        text NOT NULL CHECK (scope IN ('task', 'lineage', 'user', 'organisation')),
    object_id    text NOT NULL CHECK (object_id <> ''),
    every        text NOT NULL CHECK (every IN ('', 'day', 'month')),
    -- NULL for no limit.
    limit_micros bigint CHECK (limit_micros >= 0),
    set_by       text NOT NULL,
    set_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, scope, object_id, every)
);

-- What was spent, and what is set aside for calls under way. period is '' for
-- all time, 2026-11 for a month, 2026-11-22 for a day, in UTC. The row of the
-- organisation for all time is locked first by whoever changes any of its rows.
CREATE TABLE budget_accounts (
    org_id          text NOT NULL,
    scope           text NOT NULL,
    object_id       text NOT NULL,
    period          text NOT NULL,
    spent_micros    bigint NOT NULL DEFAULT 0 CHECK (spent_micros >= 0),
    reserved_micros bigint NOT NULL DEFAULT 0 CHECK (reserved_micros >= 0),
    -- The limit that held last; NULL for none.
    limit_micros    bigint,
    -- The limit that was warned of.
    warned_at_limit bigint,
    PRIMARY KEY (org_id, scope, object_id, period)
) WITH (fillfactor = 60);

-- One call of a model through the relay.
CREATE TABLE model_calls (
    id                 text COLLATE "C" PRIMARY KEY,
    org_id             text NOT NULL,
    task_id            text NOT NULL,
    attempt            int NOT NULL,
    -- The turn that it was made for, once that is stored.
    turn               int,
    user_name          text NOT NULL,
    provider           text NOT NULL,
    model              text NOT NULL,
    -- How the cost is known: see hub/budget.
    basis              text NOT NULL DEFAULT 'reserved' CHECK (basis IN ('reserved', 'reported', 'bounded', 'unsent', 'lost')),
    reserved_micros    bigint NOT NULL CHECK (reserved_micros >= 0),
    cost_micros        bigint NOT NULL DEFAULT 0 CHECK (cost_micros >= 0),
    input_tokens       bigint NOT NULL DEFAULT 0,
    output_tokens      bigint NOT NULL DEFAULT 0,
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    -- The accounts that it was reserved against.
    scopes             text[] NOT NULL,
    objects            text[] NOT NULL,
    periods            text[] NOT NULL,
    started_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it counts as lost.
    lost_at            timestamptz NOT NULL,
    settled_at         timestamptz,
    CHECK ((basis = 'reserved') = (settled_at IS NULL))
);
CREATE INDEX model_calls_open ON model_calls (lost_at) WHERE basis = 'reserved';
CREATE INDEX model_calls_unbound ON model_calls (task_id) WHERE turn IS NULL;
CREATE INDEX model_calls_of_provider ON model_calls (org_id, provider, started_at DESC);

-- Sets an amount aside in all accounts, or in none. The answer is {"ok": true},
-- or the account that has too little left.
-- +goose StatementBegin
CREATE FUNCTION reserve_model_call(
    call_id text, org text, task text, attempt_ int, user_ text, provider_ text, model_ text, amount bigint, lost timestamptz,
    scopes_ text[], objects_ text[], periods_ text[], everys text[], defaults bigint[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    poor record;
BEGIN
    INSERT INTO budget_accounts (org_id, scope, object_id, period) VALUES (org, 'organisation', org, '') ON CONFLICT DO NOTHING;
    PERFORM 1 FROM budget_accounts WHERE org_id = org AND scope = 'organisation' AND object_id = org AND period = '' FOR UPDATE;
    INSERT INTO budget_accounts (org_id, scope, object_id, period)
    SELECT org, a.scope, a.object_id, a.period FROM unnest(scopes_, objects_, periods_) AS a (scope, object_id, period)
    ON CONFLICT DO NOTHING;
    -- A negative default is none.
    UPDATE budget_accounts b SET limit_micros = l.limit_micros
    FROM (SELECT a.scope, a.object_id, a.period, CASE WHEN s.scope IS NULL THEN nullif(greatest(a.fallback, -1), -1) ELSE s.limit_micros END AS limit_micros
          FROM unnest(scopes_, objects_, periods_, everys, defaults) AS a (scope, object_id, period, every, fallback)
          LEFT JOIN budgets s ON s.org_id = org AND s.scope = a.scope AND s.object_id = a.object_id AND s.every = a.every) l
    WHERE b.org_id = org AND b.scope = l.scope AND b.object_id = l.object_id AND b.period = l.period
      AND b.limit_micros IS DISTINCT FROM l.limit_micros;

    SELECT b.scope, b.object_id, b.period, b.limit_micros, b.spent_micros, b.reserved_micros INTO poor
    FROM unnest(scopes_, objects_, periods_) WITH ORDINALITY AS a (scope, object_id, period, n)
    JOIN budget_accounts b ON b.org_id = org AND b.scope = a.scope AND b.object_id = a.object_id AND b.period = a.period
    WHERE b.spent_micros + b.reserved_micros + amount > b.limit_micros
    ORDER BY a.n LIMIT 1;
    IF FOUND THEN
        RETURN jsonb_build_object('ok', false, 'scope', poor.scope, 'object_id', poor.object_id, 'period', poor.period,
            'limit_micros', poor.limit_micros, 'spent_micros', poor.spent_micros, 'reserved_micros', poor.reserved_micros);
    END IF;

    UPDATE budget_accounts b SET reserved_micros = b.reserved_micros + amount
    FROM unnest(scopes_, objects_, periods_) AS a (scope, object_id, period)
    WHERE b.org_id = org AND b.scope = a.scope AND b.object_id = a.object_id AND b.period = a.period;
    INSERT INTO model_calls (id, org_id, task_id, attempt, user_name, provider, model, reserved_micros, scopes, objects, periods, lost_at)
    VALUES (call_id, org, task, attempt_, user_, provider_, model_, amount, scopes_, objects_, periods_, lost);
    RETURN jsonb_build_object('ok', true);
END
$$;
-- +goose StatementEnd

-- Puts the true cost in the place of what was set aside, once. The answer is
-- the accounts that came to four fifths of their limit with it.
-- +goose StatementBegin
CREATE FUNCTION settle_model_call(
    call_id text, org text, basis_ text, cost bigint, input_ bigint, output_ bigint, cache_read bigint, cache_write bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    c model_calls;
    warned jsonb;
BEGIN
    PERFORM 1 FROM budget_accounts WHERE org_id = org AND scope = 'organisation' AND object_id = org AND period = '' FOR UPDATE;
    SELECT * INTO c FROM model_calls WHERE id = call_id AND org_id = org AND basis = 'reserved' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN '[]';
    END IF;
    IF basis_ = 'lost' THEN
        cost := c.reserved_micros;
    END IF;
    UPDATE model_calls SET basis = basis_, cost_micros = cost, input_tokens = input_, output_tokens = output_,
        cache_read_tokens = cache_read, cache_write_tokens = cache_write, settled_at = clock_timestamp()
    WHERE id = call_id;
    UPDATE budget_accounts b SET reserved_micros = b.reserved_micros - c.reserved_micros, spent_micros = b.spent_micros + cost
    FROM unnest(c.scopes, c.objects, c.periods) AS a (scope, object_id, period)
    WHERE b.org_id = org AND b.scope = a.scope AND b.object_id = a.object_id AND b.period = a.period;
    WITH near AS (
        UPDATE budget_accounts b SET warned_at_limit = b.limit_micros
        FROM unnest(c.scopes, c.objects, c.periods) AS a (scope, object_id, period)
        WHERE b.org_id = org AND b.scope = a.scope AND b.object_id = a.object_id AND b.period = a.period
          AND b.limit_micros > 0 AND b.spent_micros * 5 >= b.limit_micros * 4 AND b.warned_at_limit IS DISTINCT FROM b.limit_micros
        RETURNING b.scope, b.object_id, b.period, b.limit_micros, b.spent_micros
    )
    SELECT coalesce(jsonb_agg(to_jsonb(near)), '[]') INTO warned FROM near;
    RETURN warned;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION reserve_model_call, settle_model_call;
DROP TABLE model_calls, budget_accounts, budgets;
