package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// candidates is how many entries are looked at closer.
	candidates = 60
	// postings is how many places of words are read to find them, those of the rarest words
	// first, and nearest how many entries with the most of these words are read.
	postings, nearest = 1000, 120
	// queryWords is how many words of a text are looked for.
	queryWords = 48
	// fewHits is how many entries with the words make a search by similar writing unnecessary.
	fewHits = 3
	// compared is how many keys are compared with a text by their writing, the last changed ones,
	// and comparedText how many bytes of the text: it takes about 6 ms for each 1,000 keys.
	compared     = 2000
	comparedText = 200
	// similar is the least trigram similarity of a key that counts.
	similar = 0.5
	// stem is how many first letters two words share that count as the same.
	stem = 5
)

// Question is what somebody looks for.
type Question struct {
	Text string
	// Types restricts it; none for all.
	Types []string
	Limit int
	// Untrusted includes what agents wrote after untrusted input and nobody confirmed.
	Untrusted bool
}

// Hit is an entry that fits a question.
type Hit struct {
	db.Memory
	// Score is higher for what fits better.
	Score float64
}

// Recall returns the entries of a run's scopes that fit a question, the best first.
func (m *Memories) Recall(ctx context.Context, q *db.Queries, r scope.Run, ask Question) ([]Hit, error) {
	scopes, err := scope.OfRun(ctx, q, r)
	if err != nil || len(scopes) == 0 {
		return nil, err
	}
	return recall(ctx, q, r.Viewer, scopes, ask)
}

func recall(ctx context.Context, q *db.Queries, v visibility.Viewer, scopes []scope.Scope, ask Question) ([]Hit, error) {
	user := userOf(scopes)
	words := Words(ask.Text)
	words = words[:min(len(words), queryWords)]
	if len(words) == 0 {
		return nil, nil
	}
	types := ask.Types
	if types == nil {
		types = []string{}
	}
	near := int32(nearest)
	if len(types) > 0 || !ask.Untrusted {
		near = postings // many may be left out
	}
	rows, err := q.RecallMemories(ctx, db.RecallMemoriesParams{
		OrgID: v.OrgID, Scopes: scopeNames(scopes), Text: strings.Join(words, " "), UserID: user, Types: types, Unconfirmed: ask.Untrusted,
		Most: postings, Near: near, MaxRows: candidates,
	})
	if err != nil {
		return nil, fmt.Errorf("recall memories: %w", err)
	}
	found := make([]Hit, len(rows))
	for i, row := range rows {
		found[i] = Hit{row.Memory, row.Rank}
	}
	score(found, words)
	if len(found) < fewHits {
		rows, err := q.SimilarMemories(ctx, db.SimilarMemoriesParams{
			OrgID: v.OrgID, Scopes: scopeNames(scopes), Text: textcut.WholeRunes(ask.Text, comparedText), UserID: user, Types: types, Unconfirmed: ask.Untrusted,
			Newest: compared, Least: similar, MaxRows: fewHits,
		})
		if err != nil {
			return nil, fmt.Errorf("find memories with similar keys: %w", err)
		}
		for _, row := range rows {
			if !slices.ContainsFunc(found, func(h Hit) bool { return h.ID == row.Memory.ID }) {
				found = append(found, Hit{row.Memory, row.Rank * 0.5})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return found[:min(len(found), ask.Limit)], nil
}

// score weighs hits by the words that they have: a word counts the more the fewer of the hits
// have it, and twice if it is in the key. What people are less sure of counts less.
func score(hits []Hit, words []string) {
	has := make([]map[string]bool, len(hits))
	keys := make([][]string, len(hits))
	frequency := map[string]int{}
	for i, h := range hits {
		has[i] = map[string]bool{}
		keys[i] = Words(h.Key)
		of := Words(h.Body)
		for _, w := range words {
			if slices.ContainsFunc(of, func(o string) bool { return alike(o, w) }) {
				has[i][w] = true
				frequency[w]++
			}
		}
	}
	n := float64(len(hits))
	for i := range hits {
		var sum, inKey float64
		for w := range has[i] {
			weight := math.Log(1 + n/float64(frequency[w]))
			sum += weight
			if slices.ContainsFunc(keys[i], func(o string) bool { return alike(o, w) }) {
				sum += weight
				inKey++
			}
		}
		// A key of which every word was asked for is what was meant.
		sum *= 1 + inKey/float64(max(1, len(keys[i])))
		hits[i].Score = (sum + hits[i].Score) * (0.5 + hits[i].Confidence/2)
	}
}

// alike reports whether two words are forms of the same.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	short := min(len(a), len(b))
	return short >= 4 && a[:min(short, stem)] == b[:min(short, stem)] && max(len(a), len(b))-short <= 4
}

func scopeNames(scopes []scope.Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s.Kind) + ":" + s.ID
	}
	return out
}
