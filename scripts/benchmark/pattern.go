package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	storedPatterns = 10_000
	patternRounds  = 400
)

// pattern measures a match of a goal among 10,000 patterns over the API, and beside it one
// SELECT of a pattern by its id. Half of the patterns are of the task type that is asked for,
// half of them are another person's and shared, most have the confidence to be offered, and every
// goal has frequent and rare words. Word
// n occurs the more often the lower n is.
func pattern(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it is over
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO patterns (id, org_id, owner, visibility, title, task_type, domain, keywords, approach, successes, source_count, alpha)
			SELECT 'pattern_b' || n, 'org_default', CASE n %% 2 WHEN 0 THEN 'admin' ELSE 'ann' END, CASE n %% 4 WHEN 1 THEN 'private' ELSE 'organisation' END,
				'pattern ' || n, CASE n %% 4 WHEN 0 THEN 'other' WHEN 1 THEN 'another' ELSE 'migration' END, 'general',
				ARRAY(SELECT DISTINCT 'word' || floor(5000 * power(random(), 3))::int FROM generate_series(1, 12) AS k WHERE n IS NOT NULL),
				'{"plan": ["back up", "migrate", "compare"], "tools": ["shell_exec"]}', n %% 8, 1 + n %% 8, 0.5 + n %% 8
			FROM generate_series(1, %d) AS n`, storedPatterns),
		`VACUUM (ANALYZE) patterns`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	var took, plain []time.Duration
	found := 0
	for i := range patternRounds {
		words := make([]string, 10)
		for k := range words {
			words[k] = fmt.Sprintf("word%d", (i*(k*k*k+1))%(5+k*k*50))
		}
		begin := time.Now()
		res, err := s.client.Patterns.MatchPatterns(ctx, &deckhandv1.MatchPatternsRequest{Goal: strings.Join(words, " "), TaskType: "migration"})
		if err != nil {
			return nil, fmt.Errorf("match: %w", err)
		}
		took = append(took, time.Since(begin))
		found += len(res.GetMatches())
		begin = time.Now()
		var title string
		if err := conn.QueryRow(ctx, "SELECT title FROM patterns WHERE id = $1", fmt.Sprintf("pattern_b%d", 1+i%storedPatterns)).Scan(&title); err != nil {
			return nil, err
		}
		plain = append(plain, time.Since(begin))
	}
	if found == 0 {
		return nil, errors.New("nothing matched: what was measured is no match")
	}
	slices.Sort(took)
	slices.Sort(plain)
	ours, peer := percentile(took, 95), percentile(plain, 95)
	return result{
		"unit": "ms, p95", "n": len(took), "patterns": storedPatterns, "ours": ours, "ours_p50": percentile(took, 50),
		"peer": peer, "peer_name": "one SELECT by primary key", "ratio": ours / peer, "matches": found,
	}, nil
}
