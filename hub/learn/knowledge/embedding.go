package knowledge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

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
	// passTime bounds a pass over an organisation's passages, so that all organisations get
	// their turn, and passes is how many organisations get one at once.
	passTime, passes = time.Minute, 8
	// againAfter is when an organisation is looked at again although nothing has said that
	// there are new passages.
	againAfter = time.Minute
	// maxVectors is how many vectors a scope has at most, unless the database compares them.
	maxVectors = 100_000
	// questionTime bounds the call that embeds a question.
	questionTime = 5 * time.Second
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
		if err := e.cfg.Models.Check(ctx, of); err != nil {
			return before, err
		}
		for _, begin := range shortening {
			if dimensions == 0 && strings.HasPrefix(of.Name, begin) {
				dimensions = shortened
			}
		}
	}
	if before.Provider == of.Provider && before.Model == of.Name && before.Dimensions == dimensions {
		return before, nil
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
		return nil, e.resize(ctx, set, len(question[0]))
	}
	return e.vectors.nearest(ctx, seen, question[0], ranked)
}

// Embed embeds passages that have no vector yet, of organisations that have a model for it. The
// leader calls it. What was embedded is stored with each batch, so that the next call goes on
// from there.
func (e *Embeddings) Embed(ctx context.Context) error {
	rows, err := e.cfg.Store.DueKnowledgeEmbeddings(ctx, passes)
	if err != nil {
		return fmt.Errorf("find organisations with passages to embed: %w", err)
	}
	var failed []error
	for _, row := range rows {
		if ctx.Err() != nil {
			break
		}
		note := db.NoteKnowledgeEmbeddingParams{OrgID: row.OrgID, Generation: row.Generation, Pause: againAfter}
		more, err := embedding{e, row}.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			note.Failures = row.Failures + 1
			note.Error, note.Pause = e.explain(row.OrgID, err), pauses.Delay(int(note.Failures))
		case more:
			note.Pause = 0
		}
		failed = append(failed, e.cfg.Store.NoteKnowledgeEmbedding(ctx, note))
	}
	return errors.Join(failed...)
}

// explain returns an error of a call as it may be stored and shown.
func (e *Embeddings) explain(orgID string, err error) string {
	said := "internal error: see the log of the hub"
	var refused *inference.Refusal
	switch f := fault.As(err); {
	case errors.As(err, &refused):
		said = refused.Error()
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
}

// pass embeds passages until none is left (more is false), or its time is over.
func (e embedding) pass(ctx context.Context) (more bool, err error) {
	full, counts, err := e.full(ctx)
	if err != nil {
		return false, err
	}
	end := time.Now().Add(passTime)
	for after := int64(0); ; {
		rows, err := e.of.cfg.Store.PassagesToEmbed(ctx, db.PassagesToEmbedParams{OrgID: e.row.OrgID, After: after, Without: full.collections, MaxRows: embedBatch})
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
	limited     bool
}

// add counts a vector of a collection.
func (l *limits) add(rows []db.KnowledgeVectorCountsRow, collectionID string) {
	scope := ""
	for _, row := range rows {
		if row.ID == collectionID {
			scope = row.Scope
		}
	}
	if l.of[scope]++; !l.limited || l.of[scope] != maxVectors {
		return
	}
	for _, row := range rows {
		if row.Scope == scope {
			l.collections = append(l.collections, row.ID)
		}
	}
}

// full returns what has as many vectors as it may, and how many each collection has.
func (e embedding) full(ctx context.Context) (*limits, []db.KnowledgeVectorCountsRow, error) {
	rows, err := e.of.cfg.Store.KnowledgeVectorCounts(ctx, e.row.OrgID)
	if err != nil {
		return nil, nil, fmt.Errorf("count the vectors of the collections: %w", err)
	}
	inDatabase, err := e.of.vectors.inDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := &limits{of: map[string]int64{}, limited: !inDatabase, collections: []string{}}
	for _, row := range rows {
		out.of[row.Scope] += row.Vectors
	}
	for _, row := range rows {
		if out.limited && out.of[row.Scope] >= maxVectors {
			out.collections = append(out.collections, row.ID)
		}
	}
	return out, rows, nil
}

// embedded returns the text by which a passage is embedded.
func embedded(row db.PassagesToEmbedRow) string {
	return textcut.WholeRunes(strings.TrimSpace(row.Title+"\n"+row.Heading+"\n"+row.Body), maxEmbedded)
}

// batch embeds some passages and stores their vectors. If the model refuses the batch, each is
// tried alone: those that it refuses although it has taken others are left without one.
func (e embedding) batch(ctx context.Context, rows []db.PassagesToEmbedRow) error {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = embedded(row)
	}
	vectors, err := e.call(ctx, texts)
	if refused(err) {
		vectors, err = e.each(ctx, texts)
	}
	if err != nil {
		return err
	}
	return e.put(ctx, rows, vectors)
}

// call embeds texts. A call that may succeed a moment later is made again.
func (e embedding) call(ctx context.Context, texts []string) (vectors [][]float32, err error) {
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

func (e embedding) each(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	taken := false
	var last error
	for i, text := range texts {
		one, err := e.call(ctx, []string{text})
		switch {
		case refused(err):
			last = err
		case err != nil:
			return nil, err
		default:
			vectors[i], taken = one[0], true
		}
	}
	if !taken && e.row.Size == 0 {
		return nil, last
	}
	return vectors, nil
}

// put stores the vectors of passages that are still there, unless the organisation has another
// model now. If the vectors have another size than those that there are, all are made again.
func (e embedding) put(ctx context.Context, rows []db.PassagesToEmbedRow, vectors [][]float32) error {
	size := 0
	for _, v := range vectors {
		size = max(size, len(v))
	}
	if size == 0 {
		size = int(e.row.Size) // all are refused
	}
	err := e.of.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		now, err := q.HoldKnowledgeEmbedding(ctx, db.HoldKnowledgeEmbeddingParams{OrgID: e.row.OrgID, Generation: e.row.Generation})
		if err != nil || int(now.Size) != size {
			return cmpErr(err, errSize)
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
	case errors.Is(err, errSize):
		return e.resize(ctx, rows, vectors, size)
	case err != nil:
		return fmt.Errorf("store vectors: %w", err)
	}
	return nil
}

var (
	errSize = errors.New("the vectors have another size")
	// errOther ends a pass whose model is not the organisation's any more.
	errOther = fault.New(fault.Aborted, "the model was changed meanwhile").WithFix("wait: the next pass uses the new one")
)

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// resize stores the first vectors of a model, or begins again if their size has changed.
func (e embedding) resize(ctx context.Context, rows []db.PassagesToEmbedRow, vectors [][]float32, size int) error {
	if err := e.of.resize(ctx, e.row, size); err != nil {
		return err
	}
	if e.row.Size != 0 {
		return errOther
	}
	e.row.Size = int32(size) //nolint:gosec // inference bounds it
	return e.put(ctx, rows, vectors)
}

// resize notes that the vectors of a model have another size than those that there are, which are
// deleted: all passages are embedded again.
func (e *Embeddings) resize(ctx context.Context, is db.KnowledgeEmbedding, size int) error {
	err := e.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		n, err := q.ResizeKnowledgeEmbedding(ctx, db.ResizeKnowledgeEmbeddingParams{OrgID: is.OrgID, Generation: is.Generation, Size: int32(size)}) //nolint:gosec // inference bounds it
		if err != nil || n == 0 {
			return cmpErr(err, errOther)
		}
		return q.DropKnowledgeVectors(ctx, is.OrgID)
	})
	if err != nil {
		return fmt.Errorf("store the size of vectors: %w", err)
	}
	return nil
}
