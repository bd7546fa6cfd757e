-- +goose Up
-- What can be found of the tasks' histories: a row for the words of a task, a call, a
-- call's result and a message. It is written behind the work, from the events, so that
-- nothing on the hot path waits for it; the texts stay where they are.
CREATE TABLE search_entries (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id  text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    kind    text NOT NULL CHECK (kind IN ('task', 'call', 'output', 'message')),
    -- Of a call and an output; otherwise empty.
    step_id text COLLATE "C" NOT NULL DEFAULT '' CHECK ((step_id <> '') = (kind IN ('call', 'output'))),
    -- The event of a message; otherwise 0.
    seq     bigint NOT NULL DEFAULT 0 CHECK ((seq > 0) = (kind = 'message')),
    at      timestamptz NOT NULL,
    words   tsvector NOT NULL,
    UNIQUE (task_id, kind, step_id, seq)
);
CREATE INDEX search_entries_words ON search_entries USING gin (words);
CREATE INDEX search_entries_newest ON search_entries (org_id, at DESC, id DESC);

-- How far the events of an organisation are read. Without a row, none is: a hub that
-- is updated reads the whole history, a batch after the other.
CREATE TABLE search_progress (
    org_id    text COLLATE "C" PRIMARY KEY,
    after_xid xid8 NOT NULL,
    after_id  bigint NOT NULL
);

-- The texts that are found and shown. Both are cut to what is indexed.
-- +goose StatementBegin
CREATE FUNCTION search_call(arguments jsonb) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT left(coalesce(string_agg(left(value #>> '{}', 32768), E'\n'), ''), 32768)
    FROM jsonb_each(CASE WHEN jsonb_typeof(arguments) = 'object' THEN arguments ELSE '{}' END)
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION search_message(payload jsonb) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT left(coalesce(payload ->> 'text', payload ->> 'question', concat_ws(E'\n', payload ->> 'reply', payload ->> 'reason')), 32768)
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION search_message, search_call;
DROP TABLE search_progress, search_entries;
