-- +goose NO TRANSACTION
-- As in 00310: no statement holds the table for longer than a moment, and each may be run again.

-- +goose Up

ALTER TABLE inbox_items
    -- The place of an item in the inbox, in microseconds: first what expires, by the time
    -- left; then what waits without end, the longest wait first; then what is closed, the
    -- newest first.
    ADD COLUMN IF NOT EXISTS place bigint NOT NULL DEFAULT 0,
    -- What the call of an approval would change that its arguments do not say: the changes to
    -- files, or what was inspected. Empty where there is nothing of that kind.
    ADD COLUMN IF NOT EXISTS effect text COLLATE "C" NOT NULL DEFAULT '',
    -- The same for approvals of calls that look alike: with one effect, and of one shape, or
    -- with the same arguments where the tool's calls have none. Empty for other kinds.
    ADD COLUMN IF NOT EXISTS alike text COLLATE "C" NOT NULL DEFAULT '';

-- A trigger computes these columns from the others. Generated columns would do the same, but
-- adding them rewrites the whole table under a lock. Triggers run in the order of their names,
-- and this one must be the last.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION inbox_item_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.place := CASE
        WHEN NEW.state <> 'open' THEN 300000000000000000 - (extract(epoch FROM NEW.answered_at AT TIME ZONE 'UTC') * 1000000)::bigint
        WHEN NEW.expires_at IS NULL THEN 100000000000000000 + (extract(epoch FROM NEW.asked_at AT TIME ZONE 'UTC') * 1000000)::bigint
        ELSE (extract(epoch FROM NEW.expires_at AT TIME ZONE 'UTC') * 1000000)::bigint END;
    NEW.effect := CASE
        WHEN NEW.kind = 'approval' AND (NEW.changes_digest <> '' OR NEW.binding ->> 'inspected' <> '')
            THEN md5(NEW.changes_digest || chr(10) || coalesce(NEW.binding ->> 'inspected', ''))
        ELSE '' END;
    NEW.alike := CASE
        WHEN NEW.kind = 'approval' THEN md5(NEW.agent_id || chr(10) || NEW.tool || chr(10) || NEW.effect || chr(10) || CASE WHEN NEW.shape <> '' THEN NEW.shape ELSE NEW.arguments::text END)
        ELSE '' END;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER inbox_items_with_order BEFORE INSERT OR UPDATE ON inbox_items
    FOR EACH ROW EXECUTE FUNCTION inbox_item_order();

-- +goose StatementBegin
DO $$
DECLARE
    done text := '';
    upto text;
BEGIN
    LOOP
        SELECT max(id) INTO upto FROM (SELECT id FROM inbox_items WHERE id > done ORDER BY id LIMIT 5000) AS batch;
        EXIT WHEN upto IS NULL;
        UPDATE inbox_items SET place = 1 WHERE id > done AND id <= upto AND place = 0; -- the trigger sets it
        COMMIT;
        done := upto;
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP INDEX CONCURRENTLY IF EXISTS inbox_items_place;
CREATE INDEX CONCURRENTLY inbox_items_place ON inbox_items (org_id, place, id);
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_alike;
CREATE INDEX CONCURRENTLY inbox_items_alike ON inbox_items (org_id, alike) WHERE state = 'open' AND alike <> '';

-- Reports whether something dangerous was recognised in a call, or its tool is of the
-- dangerous category.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION inbox_dangerous(category text, decision jsonb) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$
    SELECT category = 'dangerous' OR coalesce(jsonb_typeof(decision -> 'dangers') = 'array' AND jsonb_array_length(decision -> 'dangers') > 0, false)
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION IF EXISTS inbox_dangerous;
DROP TRIGGER IF EXISTS inbox_items_with_order ON inbox_items;
DROP FUNCTION IF EXISTS inbox_item_order;
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_place;
DROP INDEX CONCURRENTLY IF EXISTS inbox_items_alike;
ALTER TABLE inbox_items DROP COLUMN IF EXISTS place, DROP COLUMN IF EXISTS effect, DROP COLUMN IF EXISTS alike;
