package knowledge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// EmbedEvery is how often Embed is to be called.
	EmbedEvery = 3 * time.Second
	// embedBatch is how many passages one call of a model embeds, and maxEmbedded how much of
	// each, in bytes: models read about 2,000 tokens at least.
	embedBatch, maxEmbedded = 64, 6000
	// passTime is after how long a pass over an organisation's passages begins no other batch, so
	// that all organisations get their turn, and passEnd when the batch that it makes is given up.
	// passes is how many organisations get one at once.
	passTime, passEnd, passes = time.Minute, 2 * time.Minute, 8
	// againAfter is when an organisation is looked at again although nothing has said that
	// there are new passages.
	againAfter = time.Minute
	// maxVectors is how many vectors a scope has at most, unless the database compares them.
	maxVectors = 100_000
	// questionTime bounds the call that embeds a question, and checkTime that which tries a model
	// before it is set.
	questionTime, checkTime = 5 * time.Second, 30 * time.Second
	// harmless is a text that each model takes: where it is refused, the reason is no text.
	harmless = "-"
	// shortened is how many dimensions the vectors of models get that can shorten them.
	shortened = 512
)

// tries is how often a call is made that may succeed a moment later, and between how long the
// hub waits then.
const tries = 3

var between = backoff.Policy{Base: 300 * time.Millisecond, Max: 2 * time.Second}

// pauses are those after calls that failed.
var pauses = backoff.Policy{Base: 10 * time.Second, Max: 15 * time.Minute}

// shortening are the beginnings of the names of models that shorten their vectors when they are
// asked to.
var shortening = []string{"text-embedding-3", "gemini-embedding", "text-embedding-004"}

// Embedder turns texts into vectors.
type Embedder interface {
	Check(ctx context.Context, of inference.Model) error
	Embed(ctx context.Context, of inference.Embedding, texts []string) ([][]float32, error)
}

// Embeddings keeps the vectors of passages, and searches by them.
type Embeddings struct {
	cfg     Config
	vectors *vectors
}

// Embedding is an organisation's model for search by meaning, and how far it is.
type Embedding struct {
	db.KnowledgeEmbedding
	db.KnowledgeVectorTotalsRow

	// InDatabase reports that the database compares vectors.
	InDatabase bool
}

// Get returns the model of an organisation; without a provider for none.
func (e *Embeddings) Get(ctx context.Context, orgID string) (out Embedding, err error) {
	if out.KnowledgeEmbedding, err = e.cfg.Store.KnowledgeEmbedding(ctx, orgID); err != nil && !store.IsNotFound(err) {
		return out, fmt.Errorf("load the model for embeddings: %w", err)
	}
	if out.KnowledgeVectorTotalsRow, err = e.cfg.Store.KnowledgeVectorTotals(ctx, orgID); err != nil {
		return out, fmt.Errorf("count the vectors: %w", err)
	}
	out.InDatabase, err = e.vectors.inDatabase(ctx)
	return out, err
}

// Set sets the model of an organisation; without a provider none. The vectors of the
// model before are deleted.
func (e *Embeddings) Set(ctx context.Context, of inference.Model, dimensions int32, by event.Actor) (Embedding, error) {
	if (of.Provider == "") != (of.Name == "") {
		return Embedding{}, fault.New(fault.Invalid, "provider and model are set together").WithCode(fault.InvalidParameters).WithFix("give both, or none of them to search by words only")
	}
	before, err := e.Get(ctx, of.OrgID)
	if err != nil {
		return before, err
	}
	if of.Provider != "" {
		for _, begin := range shortening {
			if dimensions == 0 && strings.HasPrefix(of.Name, begin) {
				dimensions = shortened
			}
		}
	}
	if before.Provider == of.Provider && before.Model == of.Name && before.Dimensions == dimensions {
		if err := e.cfg.Store.RetryRefusedPassages(ctx, of.OrgID); err != nil {
			return before, fmt.Errorf("send refused passages again: %w", err)
		}
		return e.Get(ctx, of.OrgID)
	}
	if of.Provider != "" {
		if err := e.try(ctx, of, dimensions); err != nil {
			return before, err
		}
	}
	err = e.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if of.Provider == "" {
			_, err = tx.DropKnowledgeEmbedding(ctx, of.OrgID)
		} else {
			_, err = tx.PutKnowledgeEmbedding(ctx, db.PutKnowledgeEmbeddingParams{OrgID: of.OrgID, Provider: of.Provider, Model: of.Name, Dimensions: dimensions, ChangedBy: by.ID})
		}
		if err != nil {
			return fmt.Errorf("store the model for embeddings: %w", err)
		}
		if err := tx.DropKnowledgeVectors(ctx, of.OrgID); err != nil {
			return fmt.Errorf("delete the vectors of the model before: %w", err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: of.OrgID, By: by, Action: "knowledge.embedding_set", ObjectKind: "organisation", ObjectID: of.OrgID,
			Before: map[string]any{"provider": before.Provider, "model": before.Model, "dimensions": before.Dimensions},
			After:  map[string]any{"provider": of.Provider, "model": of.Name, "dimensions": dimensions},
		})
	})
	if err != nil {
		return before, err
	}
	return e.Get(ctx, of.OrgID)
}

// try refuses a model that does not embed, before the vectors of the one before are deleted for it.
func (e *Embeddings) try(ctx context.Context, of inference.Model, dimensions int32) error {
	if err := e.cfg.Models.Check(ctx, of); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	_, err := e.cfg.Models.Embed(timed, inference.Embedding{Model: of, Dimensions: dimensions}, []string{harmless})
	var refused *inference.Refusal
	if errors.As(err, &refused) {
		return fault.New(fault.Precondition, "model %.100s does not embed: %s", of.Name, textcut.Runes(refused.Error(), maxError, "…")).
			WithFix("name a model for embeddings of %s, or try again later", of.Provider)
	}
	return err
}

// nearest returns the passages whose vectors are nearest to that of a question; none if the
// organisation has no model for it, or nothing is embedded yet.
func (e *Embeddings) nearest(ctx context.Context, v visibility.Viewer, seen []db.KnowledgeCollectionsSeenRow, text string) ([]int64, error) {
	set, err := e.cfg.Store.KnowledgeEmbedding(ctx, v.OrgID)
	if store.IsNotFound(err) || err == nil && set.Size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the model for embeddings: %w", err)
	}
	timed, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	question, err := e.cfg.Models.Embed(timed, inference.Embedding{
		Model: inference.Model{OrgID: v.OrgID, Provider: set.Provider, Name: set.Model, User: v.Name}, Dimensions: set.Dimensions, Question: true,
	}, []string{text})
	if err != nil {
		return nil, err
	}
	if len(question[0]) != int(set.Size) {
		return nil, e.suspect(ctx, set)
	}
	of := fmt.Sprintf("%d %d", set.Generation, set.ChangedAt.UnixNano())
	return e.vectors.nearest(ctx, seen, of, question[0], ranked)
}

// errSize is for vectors of another size than those that there are.
var errSize = fault.New(fault.Precondition, "the model returned vectors of another size than before").
	WithFix("wait: if it goes on, all passages are embedded again")

// suspect has the next pass look whether a model has another size now. A question decides nothing:
// one answer that is odd would delete all vectors.
func (e *Embeddings) suspect(ctx context.Context, set db.KnowledgeEmbedding) error {
	if set.Failures > 0 {
		return errSize // the next pass looks already
	}
	err := e.cfg.Store.NoteKnowledgeEmbedding(ctx, db.NoteKnowledgeEmbeddingParams{
		OrgID: set.OrgID, Generation: set.Generation, Failures: 1, Error: errSize.Explanation(), Pause: pauses.Delay(1),
	})
	if err != nil {
		return fmt.Errorf("note that vectors have another size: %w", err)
	}
	return errSize
}

// Embed embeds passages that have no vector yet, of organisations that have a model for it. The
// leader calls it. What was embedded is stored with each batch, so that the next call goes on
// from there.
func (e *Embeddings) Embed(ctx context.Context) error {
	rows, err := e.cfg.Store.DueKnowledgeEmbeddings(ctx, passes)
	if err != nil {
		return fmt.Errorf("find organisations with passages to embed: %w", err)
	}
	var all errgroup.Group
	for _, row := range rows {
		all.Go(func() error { return e.turn(ctx, row) })
	}
	return all.Wait()
}

// turn embeds passages of one organisation for some time, and notes how that ended.
func (e *Embeddings) turn(ctx context.Context, row db.KnowledgeEmbedding) error {
	note := db.NoteKnowledgeEmbeddingParams{OrgID: row.OrgID, Generation: row.Generation, Pause: againAfter}
	timed, cancel := context.WithTimeout(ctx, passEnd)
	defer cancel()
	more, err := (&embedding{e, row, embedBatch}).pass(timed)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		note.Failures = row.Failures + 1
		note.Error, note.Pause = e.explain(row.OrgID, err), pauses.Delay(int(note.Failures))
	case more:
		note.Pause = 0
	}
	return e.cfg.Store.NoteKnowledgeEmbedding(ctx, note)
}

// explain returns an error of a call as it may be stored and shown.
func (e *Embeddings) explain(orgID string, err error) string {
	said := "internal error: see the log of the hub"
	var refused *inference.Refusal
	switch f := fault.As(err); {
	case errors.As(err, &refused):
		said = refused.Error()
	case errors.Is(err, context.DeadlineExceeded):
		said = "it was not done in time"
	case f != nil && f.Kind != fault.Internal:
		said = f.Explanation()
	default:
		e.cfg.Log.Warn("cannot embed passages", "org_id", orgID, "error", err)
	}
	return textcut.Runes(e.cfg.Redact.Org(orgID).String(said), maxError, "…")
}

// embedding embeds the passages of an organisation with the model that it has now.
type embedding struct {
	of  *Embeddings
	row db.KnowledgeEmbedding
	// most is how many texts the model takes in one call, as far as that is known.
	most int
}

// pass embeds passages until none is left (more is false), or its time is over.
func (e *embedding) pass(ctx context.Context) (more bool, err error) {
	if e.row.Failures > 0 && e.row.Size > 0 {
		if err := e.look(ctx); err != nil {
			return false, err
		}
	}
	full, counts, err := e.full(ctx)
	if err != nil {
		return false, err
	}
	end := time.Now().Add(passTime)
	for after := int64(0); ; {
		rows, err := e.of.cfg.Store.PassagesToEmbed(ctx, db.PassagesToEmbedParams{OrgID: e.row.OrgID, After: after, Without: full.collections, MaxRows: int32(e.most)}) //nolint:gosec // at most embedBatch
		if err != nil {
			return false, fmt.Errorf("find passages to embed: %w", err)
		}
		if len(rows) == 0 {
			return false, nil
		}
		if err := e.batch(ctx, rows); err != nil {
			return false, err
		}
		for _, row := range rows {
			full.add(counts, row.CollectionID)
		}
		if after = rows[len(rows)-1].ID; time.Now().After(end) {
			return true, nil
		}
	}
}

// limits are the collections of scopes that have as many vectors as they may.
type limits struct {
	collections []string
	of          map[string]int64 // vectors, by scope
	most        int64            // 0 for any number
}

// add counts a vector of a collection.
func (l *limits) add(rows []db.KnowledgeVectorCountsRow, collectionID string) {
	scope := ""
	for _, row := range rows {
		if row.ID == collectionID {
			scope = row.Scope
		}
	}
	if l.of[scope]++; l.most == 0 || l.of[scope] != l.most {
		return
	}
	for _, row := range rows {
		if row.Scope == scope {
			l.collections = append(l.collections, row.ID)
		}
	}
}

// full returns what has as many vectors as it may, and how many each collection has.
func (e *embedding) full(ctx context.Context) (*limits, []db.KnowledgeVectorCountsRow, error) {
	rows, err := e.of.cfg.Store.KnowledgeVectorCounts(ctx, e.row.OrgID)
	if err != nil {
		return nil, nil, fmt.Errorf("count the vectors of the collections: %w", err)
	}
	inDatabase, err := e.of.vectors.inDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := &limits{of: map[string]int64{}, collections: []string{}}
	if !inDatabase { // those of a scope fit in memory
		out.most = min(maxVectors, maxKept/perFloat/int64(max(e.row.Size, 1)))
	}
	for _, row := range rows {
		out.of[row.Scope] += row.Vectors
	}
	for _, row := range rows {
		if out.most > 0 && out.of[row.Scope] >= out.most {
			out.collections = append(out.collections, row.ID)
		}
	}
	return out, rows, nil
}

// embedded returns the text by which a passage is embedded.
func embedded(row db.PassagesToEmbedRow) string {
	return textcut.WholeRunes(strings.TrimSpace(row.Title+"\n"+row.Heading+"\n"+row.Body), maxEmbedded)
}

// batch embeds some passages and stores their vectors. Those that the model refuses although it
// takes others are left without one.
func (e *embedding) batch(ctx context.Context, rows []db.PassagesToEmbedRow) error {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = embedded(row)
	}
	vectors, err := e.call(ctx, texts)
	if refused(err) {
		// The key or the account may be what is refused, and not a text.
		if _, probe := e.call(ctx, []string{harmless}); probe != nil {
			return err
		}
		if vectors, err = e.halves(ctx, texts); err == nil && slices.ContainsFunc(vectors, func(v []float32) bool { return v == nil }) {
			_, err = e.call(ctx, []string{harmless})
		}
	}
	if err != nil {
		return err
	}
	return e.put(ctx, rows, vectors)
}

// halves embeds texts that the model has refused together: in halves, until it takes them. It
// returns no vector for a single text that is refused.
func (e *embedding) halves(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 1 {
		return make([][]float32, 1), nil
	}
	half := (len(texts) + 1) / 2
	var out [][]float32
	whole := true
	for part := range slices.Chunk(texts, half) {
		vectors, err := e.call(ctx, part)
		if refused(err) {
			whole = false
			vectors, err = e.halves(ctx, part)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, vectors...)
	}
	if whole { // there were too many, or too much of them
		e.most = min(e.most, half)
	}
	return out, nil
}

// call embeds texts. A call that may succeed a moment later is made again.
func (e *embedding) call(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	for try := 1; ; try++ {
		vectors, err = e.of.cfg.Models.Embed(ctx, inference.Embedding{Model: inference.Model{OrgID: e.row.OrgID, Provider: e.row.Provider, Name: e.row.Model}, Dimensions: e.row.Dimensions}, texts)
		if err == nil || try == tries || !inference.Retriable(err) {
			return vectors, err
		}
		if err := backoff.Wait(ctx, between.Delay(try)); err != nil {
			return nil, err
		}
	}
}

// refused reports whether a model does not take what it got.
func refused(err error) bool {
	var r *inference.Refusal
	return errors.As(err, &r) && (r.Status == http.StatusBadRequest || r.Status == http.StatusRequestEntityTooLarge || r.Status == http.StatusUnprocessableEntity)
}

// put stores the vectors of passages that are still there, unless the organisation has another
// model now. The first decide the size of all.
func (e *embedding) put(ctx context.Context, rows []db.PassagesToEmbedRow, vectors [][]float32) error {
	size := e.row.Size
	for _, v := range vectors {
		if v == nil {
			continue
		}
		if size == 0 {
			size = int32(len(v)) //nolint:gosec // inference bounds it
		}
		if len(v) != int(size) {
			return errSize
		}
	}
	if size != e.row.Size {
		if err := e.resize(ctx, size); err != nil {
			return err
		}
	}
	err := e.of.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		now, err := q.HoldKnowledgeEmbedding(ctx, db.HoldKnowledgeEmbeddingParams{OrgID: e.row.OrgID, Generation: e.row.Generation})
		if err != nil {
			return err
		}
		if now.Size != size {
			return errOther
		}
		var touched []string
		for _, row := range rows {
			touched = append(touched, row.CollectionID)
		}
		if err := q.TouchKnowledgeVectors(ctx, db.TouchKnowledgeVectorsParams{OrgID: e.row.OrgID, Ids: touched}); err != nil {
			return err
		}
		for i, row := range rows {
			v := vectors[i]
			if v == nil {
				v = []float32{}
			}
			if err := q.PutKnowledgeVector(ctx, db.PutKnowledgeVectorParams{OrgID: e.row.OrgID, PassageID: row.ID, Vector: v}); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case store.IsNotFound(err):
		return errOther
	case err != nil:
		return fmt.Errorf("store vectors: %w", err)
	}
	return nil
}

// errOther ends a pass whose model is not the organisation's any more.
var errOther = fault.New(fault.Aborted, "the model was changed meanwhile").WithFix("wait: the next pass uses the new one")

// look asks a model that has failed for a harmless text, before it gets others. If all vectors
// that it returns now have another size than those that there are, those are deleted, and all
// passages are embedded again.
func (e *embedding) look(ctx context.Context) error {
	size := 0
	for range looks {
		vectors, err := e.call(ctx, []string{harmless})
		if err != nil {
			return err
		}
		if size = len(vectors[0]); size == int(e.row.Size) {
			return nil
		}
	}
	if err := e.resize(ctx, int32(size)); err != nil { //nolint:gosec // inference bounds it
		return err
	}
	return errOther
}

// looks is how often a model says in a row that its vectors have another size, before it is believed.
const looks = 3

// resize notes the size that the vectors have, and deletes those of another one: all passages are
// embedded again.
func (e *embedding) resize(ctx context.Context, size int32) error {
	err := e.of.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		n, err := q.ResizeKnowledgeEmbedding(ctx, db.ResizeKnowledgeEmbeddingParams{OrgID: e.row.OrgID, Generation: e.row.Generation, Size: size})
		if err != nil {
			return err
		}
		if n == 0 {
			return errOther
		}
		return q.DropKnowledgeVectors(ctx, e.row.OrgID)
	})
	if err != nil {
		return fmt.Errorf("store the size of vectors: %w", err)
	}
	if e.row.Size == 0 {
		e.row.Size = size
	}
	return nil
}
