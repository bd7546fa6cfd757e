-- +goose Up

-- A number of an entry, which is shorter than its id.
ALTER TABLE memories ADD COLUMN serial bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX memories_by_serial ON memories (serial);

-- The words of entries, for what is recalled: they are found without those of all others, and
-- counted without reading the entries. Words and scopes are hashes: two that have the same only
-- make an entry a candidate. Triggers keep it; deleted entries are not in it.
CREATE TABLE memory_words (
    -- Of the scope and the user whose runs alone get the entry.
    scope  bigint NOT NULL,
    word   bigint NOT NULL,
    memory bigint NOT NULL,
    PRIMARY KEY (scope, word, memory)
);

-- +goose StatementBegin
CREATE FUNCTION memory_scope_hash(kind text, id text, only_for text) RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT hashtextextended(kind || ':' || id || ':' || only_for, 8531)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION memory_word_hashes(words tsvector) RETURNS SETOF bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT hashtextextended(w.word, 8532) FROM unnest(tsvector_to_array(words)) AS w (word) WHERE w.word NOT LIKE '@%'
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION put_memory_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM memory_words w WHERE w.scope = memory_scope_hash(OLD.scope_kind, OLD.scope_id, OLD.only_for)
            AND w.word IN (SELECT memory_word_hashes(OLD.words)) AND w.memory = OLD.serial;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        IF NEW.deleted_at IS NULL THEN
            INSERT INTO memory_words (scope, word, memory)
            SELECT memory_scope_hash(NEW.scope_kind, NEW.scope_id, NEW.only_for), h.word, NEW.serial FROM memory_word_hashes(NEW.words) AS h (word)
            ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER memories_words_added AFTER INSERT OR DELETE ON memories FOR EACH ROW EXECUTE FUNCTION put_memory_words();
CREATE TRIGGER memories_words_changed AFTER UPDATE ON memories FOR EACH ROW
    WHEN (OLD.body <> NEW.body OR OLD.only_for <> NEW.only_for OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
    EXECUTE FUNCTION put_memory_words();

INSERT INTO memory_words (scope, word, memory)
SELECT memory_scope_hash(m.scope_kind, m.scope_id, m.only_for), h.word, m.serial FROM memories m CROSS JOIN LATERAL memory_word_hashes(m.words) AS h (word)
WHERE m.deleted_at IS NULL ON CONFLICT DO NOTHING;
DROP INDEX memories_words;

-- +goose Down
CREATE INDEX memories_words ON memories USING gin (words);
DROP TRIGGER memories_words_added ON memories;
DROP TRIGGER memories_words_changed ON memories;
DROP FUNCTION put_memory_words();
DROP FUNCTION memory_word_hashes(tsvector);
DROP FUNCTION memory_scope_hash(text, text, text);
DROP TABLE memory_words;
ALTER TABLE memories DROP COLUMN serial;
