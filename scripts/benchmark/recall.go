package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	ownMemories    = 10_000
	othersMemories = 500_000
	recallRounds   = 300
)

// memoryRecall measures how long it takes to find what fits a goal in the memory of a user with
// 10,000 entries among 500,000 of others, over the API and at p95, and as a ratio to one SELECT
// by an index that returns as many rows over a connection of its own.
func memoryRecall(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ann, err := s.user(ctx, "ann")
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it is over
	insert := func(id, owner string, n int) string {
		return fmt.Sprintf(`INSERT INTO memories (id, org_id, scope_kind, scope_id, type, key, value, body, source, confirmed_by, confidence)
			SELECT '%s' || n, 'org_default', 'user', %s, 'fact', 'key ' || n, to_jsonb(x.text), 'key ' || n || E'\n' || x.text, 'person', 'x', 1
			FROM generate_series(1, %d) AS n, LATERAL (SELECT string_agg('w' || floor(20000 * power(random(), 3))::int, ' ') AS text FROM generate_series(1, 20) AS k WHERE n IS NOT NULL) AS x`, id, owner, n)
	}
	for _, statement := range []string{
		// Their words are stored at once after that, which is faster than by entry.
		`ALTER TABLE memories DISABLE TRIGGER USER`,
		`INSERT INTO users (id, org_id, name, role) SELECT 'user_o' || n, 'org_default', 'other' || n, 'basic' FROM generate_series(1, 50) AS n`,
		insert("memory_a", "(SELECT id FROM users WHERE name = 'ann' AND org_id = 'org_default')", ownMemories),
		insert("memory_o", "'user_o' || (1 + n % 50)", othersMemories),
		`ALTER TABLE memory_words DROP CONSTRAINT memory_words_pkey`,
		`INSERT INTO memory_words SELECT memory_scope_hash(m.scope_kind, m.scope_id, m.only_for), h.word, m.serial
			FROM memories m CROSS JOIN LATERAL memory_word_hashes(m.words) AS h (word)`,
		`ALTER TABLE memory_words ADD PRIMARY KEY (scope, word, memory)`,
		`ALTER TABLE memories ENABLE TRIGGER USER`,
		`VACUUM (ANALYZE) memories, memory_words`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	var ours, peer []time.Duration
	found := 0
	for i := range recallRounds {
		text := fmt.Sprintf("find out why w%d and w%d fail after w%d, and write a test", i*61%20000, i*7%3000, i%200)
		begin := time.Now()
		res, err := ann.Memories.RecallMemories(ctx, &deckhandv1.RecallMemoriesRequest{Text: text})
		if err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(begin))
		found += len(res.GetHits())
		begin = time.Now()
		rows, err := conn.Query(ctx, "SELECT * FROM memories WHERE org_id = 'org_default' AND (scope_kind || ':' || scope_id) = $1 ORDER BY updated_at DESC, id DESC LIMIT 60",
			fmt.Sprintf("user:user_o%d", 1+i%50))
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			if _, err := rows.Values(); err != nil {
				return nil, err
			}
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		peer = append(peer, time.Since(begin))
	}
	slices.Sort(ours)
	slices.Sort(peer)
	return result{
		"unit": "ms, p95", "ours": percentile(ours, 95), "ours_p50": percentile(ours, 50), "peer": percentile(peer, 95), "peer_name": "one indexed SELECT of 60 rows",
		"ratio": percentile(ours, 95) / percentile(peer, 95), "n": len(ours), "hits": found, "entries": ownMemories + othersMemories,
	}, nil
}
