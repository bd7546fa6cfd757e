-- +goose Up

-- How often a passage has each of some words: three numbers for each, those in its headings (A),
-- in the path and title of its document (B), and in its text (D).
-- +goose StatementBegin
CREATE FUNCTION passage_counts(words tsvector, terms text[]) RETURNS integer[] IMMUTABLE LANGUAGE sql AS $$
    SELECT array_agg(coalesce(c.n, 0) ORDER BY t.place, x.part)
    FROM unnest(terms) WITH ORDINALITY AS t (term, place) CROSS JOIN (VALUES ('A'), ('B'), ('D')) AS x (part)
    LEFT JOIN (
        SELECT w.lexeme, u.part, count(*)::integer AS n
        FROM unnest(words) AS w (lexeme, positions, weights) CROSS JOIN LATERAL unnest(w.weights) AS u (part)
        WHERE w.lexeme = ANY (terms) GROUP BY w.lexeme, u.part
    ) AS c ON c.lexeme = t.term AND c.part = x.part
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION passage_counts(tsvector, text[]);
