package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Query is what is looked for.
type Query struct {
	Text string
	// Collections are references of those to look into; empty for all.
	Collections []string
	// Limit is how many passages to return at most.
	Limit int
}

// Hit is a passage that a search found.
type Hit struct {
	db.KnowledgePassagesRow

	Score float64
	// FoundBy are the searches that found it: ByWords, BySimilar, ByMeaning.
	FoundBy []string
}

// Found is what a search found.
type Found struct {
	// Hits are the passages, the best first.
	Hits []Hit
	// Collections is how many there were to search.
	Collections int
	// Note says why the search by meaning was left out; empty if it was made, or if there is no
	// model for it.
	Note string
}

// The searches whose results are merged.
const (
	ByWords   = "words"
	BySimilar = "similar"
	ByMeaning = "meaning"
)

const (
	// ranked is how many passages of each search are merged.
	ranked = 100
	// looked is about how many passages are candidates: those with the rarest words. examined is
	// how many of them get a score: those that PostgreSQL ranks highest.
	looked, examined = 4000, 300
	// fewWords is for how many words similar ones are looked for, and similarWords how many.
	fewWords, similarWords = 4, 5
	// leastLikeness is the similarity, of 0 to 1, from which a word counts as another one that
	// is misspelled.
	leastLikeness = 0.55
	// rare is in how many passages a word is at most for which similar ones are looked for.
	rare = 2
	// fused is the constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009).
	fused = 60
	// similarWeight is how much a rank among similar words counts against one among words.
	similarWeight = 0.5
	// searchTime bounds a search. loadTime is what of it is left for the passages that were found:
	// the search by meaning ends before.
	searchTime, loadTime = 10 * time.Second, 3 * time.Second
)

// Search returns the passages that fit a question best, of collections that v sees now.
func (k *Knowledge) Search(ctx context.Context, v visibility.Viewer, q Query) (out Found, err error) {
	only := []string{}
	for _, ref := range q.Collections {
		id, err := k.Find(ctx, v, ref)
		if err != nil {
			return out, err
		}
		only = append(only, id)
	}
	seen, err := k.cfg.Store.KnowledgeCollectionsSeen(ctx, db.KnowledgeCollectionsSeenParams{OrgID: v.OrgID, OnlyIds: only, Viewer: v.Name, Administrator: v.All})
	if err != nil {
		return out, fmt.Errorf("list the collections to search: %w", err)
	}
	if out.Collections = len(seen); len(seen) == 0 {
		return out, nil
	}
	words := asked(q.Text)
	if len(words) == 0 {
		return out, fault.New(fault.Invalid, "query: it has no words that say something").WithCode(fault.InvalidParameters).WithFix("use other words")
	}
	ids := make([]string, len(seen))
	for i, c := range seen {
		ids[i] = c.ID
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	lists, err := finder{k.cfg.Store}.ranks(ctx, v.OrgID, ids, words)
	if err != nil {
		return out, err
	}
	end, _ := ctx.Deadline()
	timed, done := context.WithDeadline(ctx, end.Add(-loadTime))
	defer done()
	near, err := k.Embeddings.nearest(timed, v, seen, q.Text)
	switch {
	case err != nil && ctx.Err() != nil:
		return out, err
	case err != nil:
		// What was found by words is still true.
		var refused *inference.Refusal
		if out.Note = "searched by words only: "; errors.As(err, &refused) {
			out.Note += refused.Short()
		} else {
			out.Note += k.Embeddings.explain(v.OrgID, err)
		}
	case len(near) > 0:
		lists = append(lists, list{ByMeaning, 1, near})
	}
	best := merge(lists)
	// More than are returned, since some may be the same text.
	best = best[:min(len(best), 2*q.Limit+10)]
	hits, err := finder{k.cfg.Store}.load(ctx, v.OrgID, best)
	if err != nil {
		return out, err
	}
	out.Hits = distinct(hits, q.Limit)
	return out, nil
}

// finder searches collections that its caller may read.
type finder struct{ store *store.Store }

// list is what one search found, the best first.
type list struct {
	by     string
	weight float64
	ids    []int64
}

// ranks searches in each way.
func (f finder) ranks(ctx context.Context, orgID string, collections, words []string) ([]list, error) {
	size, err := f.store.KnowledgeSize(ctx, collections)
	if err != nil {
		return nil, fmt.Errorf("count passages: %w", err)
	}
	rows, err := f.store.KnowledgeWordCounts(ctx, db.KnowledgeWordCountsParams{Collections: collections, Words: words})
	if err != nil {
		return nil, fmt.Errorf("count words: %w", err)
	}
	there := map[string]int64{}
	for _, row := range rows {
		there[row.Word] = row.Passages
	}
	worth := func(passages int64) float64 {
		n, all := float64(passages), float64(max(size.Passages, passages))
		return math.Log(1 + (all-n+0.5)/(n+0.5))
	}
	var exact []term
	for _, w := range words {
		if n := there[w]; n > 0 {
			exact = append(exact, term{w, worth(n), n})
		}
	}
	found, err := f.rank(ctx, orgID, collections, exact, size.Average)
	if err != nil {
		return nil, err
	}
	out := []list{{ByWords, 1, found}}
	var alike []term
	tried := 0
	for _, w := range words {
		if there[w] > rare || len(w) < 4 || tried == fewWords {
			continue
		}
		tried++
		rows, err := f.store.SimilarKnowledgeWords(ctx, db.SimilarKnowledgeWordsParams{Collections: collections, Word: w, MaxRows: similarWords + 1})
		if err != nil {
			return nil, fmt.Errorf("look for similar words: %w", err)
		}
		for _, row := range rows {
			if row.Word != w && row.Likeness >= leastLikeness {
				alike = append(alike, term{row.Word, worth(row.Passages) * row.Likeness, row.Passages})
			}
		}
	}
	if len(alike) == 0 {
		return out, nil
	}
	// With the words that are there: a word that is misspelled is one of several.
	found, err = f.rank(ctx, orgID, collections, append(alike, exact...), size.Average)
	if err != nil {
		return nil, err
	}
	return append(out, list{BySimilar, similarWeight, found}), nil
}

// rank returns the passages that fit some words best.
func (f finder) rank(ctx context.Context, orgID string, collections []string, terms []term, average float64) ([]int64, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(a.passages, b.passages) })
	average = max(average, 1)
	p := db.RankKnowledgeParams{OrgID: orgID, Collections: collections, MaxRows: examined, Average: average}
	var any []string
	sum := int64(0)
	for i, t := range terms {
		p.Words, p.Queries, p.Weights = append(p.Words, t.word), append(p.Queries, lexeme(t.word)), append(p.Weights, t.weight)
		if sum += t.passages; i == 0 || sum <= looked {
			any = append(any, lexeme(t.word))
		}
	}
	p.AnyOf = strings.Join(any, " | ")
	var rows []db.RankKnowledgeRow
	err := f.store.Tx(ctx, func(q *db.Queries) (err error) {
		// A plan for these words: rare and frequent ones need different ones.
		if _, err := q.PrepareSearch(ctx, strconv.FormatInt(searchTime.Milliseconds(), 10)); err != nil {
			return err
		}
		rows, err = q.RankKnowledge(ctx, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search passages: %w", err)
	}
	return byScore(rows, terms, average), nil
}

// merged is a passage with its merged score.
type merged struct {
	id    int64
	score float64
	by    []string
}

// merge merges results by reciprocal rank: what several searches rank high comes first.
func merge(lists []list) []merged {
	at := map[int64]int{}
	var out []merged
	for _, l := range lists {
		for i, id := range l.ids {
			n, there := at[id]
			if !there {
				n = len(out)
				at[id] = n
				out = append(out, merged{id: id})
			}
			out[n].score += l.weight / float64(fused+i+1)
			out[n].by = append(out[n].by, l.by)
		}
	}
	slices.SortStableFunc(out, func(a, b merged) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	return out
}

// load returns passages in the order of their scores.
func (f finder) load(ctx context.Context, orgID string, best []merged) ([]Hit, error) {
	ids := make([]int64, len(best))
	for i, m := range best {
		ids[i] = m.id
	}
	rows, err := f.store.KnowledgePassages(ctx, db.KnowledgePassagesParams{OrgID: orgID, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("load passages: %w", err)
	}
	byID := map[int64]db.KnowledgePassagesRow{}
	for _, row := range rows {
		byID[row.ID] = row
	}
	var out []Hit
	for _, m := range best {
		// One that was replaced meanwhile is left out.
		if row, there := byID[m.id]; there {
			out = append(out, Hit{KnowledgePassagesRow: row, Score: m.score, FoundBy: m.by})
		}
	}
	return out, nil
}

// distinct returns the first hits, each text once.
func distinct(hits []Hit, limit int) (out []Hit) {
	seen := map[string]bool{}
	for _, h := range hits {
		if len(out) == limit {
			break
		}
		if seen[h.Body] {
			continue
		}
		seen[h.Body] = true
		out = append(out, h)
	}
	return out
}

// Passage returns a passage of a collection that v sees, and those around it in the order of
// its document.
func (k *Knowledge) Passage(ctx context.Context, v visibility.Viewer, ref string, around int32) (Hit, []Hit, error) {
	missing := fault.New(fault.NotFound, "there is no passage %q", ref).WithObject(ref).WithFix("search again: the document may have been read again since")
	id, err := strconv.ParseInt(ref, 10, 64)
	if err != nil {
		return Hit{}, nil, missing
	}
	at, err := k.cfg.Store.KnowledgePassage(ctx, db.KnowledgePassageParams{OrgID: v.OrgID, ID: id, Viewer: v.Name, Administrator: v.All})
	if store.IsNotFound(err) {
		return Hit{}, nil, missing
	}
	if err != nil {
		return Hit{}, nil, fmt.Errorf("load passage %s: %w", ref, err)
	}
	ids, err := k.cfg.Store.KnowledgeNeighbours(ctx, db.KnowledgeNeighboursParams{
		OrgID: v.OrgID, DocumentID: at.DocumentID, First: at.Number - around, Last: at.Number + around,
	})
	if err != nil {
		return Hit{}, nil, fmt.Errorf("load the passages around %s: %w", ref, err)
	}
	best := make([]merged, len(ids))
	for i, n := range ids {
		best[i] = merged{id: n}
	}
	all, err := finder{k.cfg.Store}.load(ctx, v.OrgID, best)
	if err != nil {
		return Hit{}, nil, err
	}
	for _, h := range all {
		if h.ID == id {
			return h, all, nil
		}
	}
	return Hit{}, nil, missing
}

// Citation returns where a passage is, in one line.
func (h Hit) Citation() string {
	where := h.Collection + ": " + h.Path
	switch {
	case h.Page > 0:
		return fmt.Sprintf("%s, page %d", where, h.Page)
	case h.FirstLine == 0:
		return where
	case h.Format == "docx":
		return fmt.Sprintf("%s, paragraph %d", where, h.FirstLine)
	case h.LastLine > h.FirstLine:
		return fmt.Sprintf("%s:%d-%d", where, h.FirstLine, h.LastLine)
	}
	return fmt.Sprintf("%s:%d", where, h.FirstLine)
}
