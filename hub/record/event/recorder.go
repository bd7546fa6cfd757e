// Package event is the append-only history of tasks: events are numbered per task from 1
// without gaps, and written in the transaction that changes the state. Recorder appends
// them, and Watcher reads them in commit order.
//
// PostgreSQL stores the events; the bus only hints that there is something to read, so
// losing it delays a watcher by at most the poll interval.
package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Actor is who made something happen.
type Actor struct {
	// Kind is user, worker, hub or node.
	Kind string
	ID   string
	// Address and UserAgent are where a user called from, for the audit.
	Address, UserAgent string
}

// User is the kind of actors that are people, or programs with their tokens.
const User = "user"

// Hub is the actor of what the hub does by itself.
var Hub = Actor{Kind: "hub", ID: "hub"}

// Draft is an event before it is numbered and dated. Payload must be a JSON
// object; secrets in it are masked before it is stored.
type Draft struct {
	Type    eventkind.Kind
	Payload map[string]any
}

// RecorderConfig holds the dependencies of a Recorder.
type RecorderConfig struct {
	Store  *store.Store
	Redact *redact.Redactor
	// Notify is called after a commit for every task that got events. None of
	// these may block.
	Notify func(orgID, taskID string)
	// OnStored, if set, is called after the commit of each batch of events of one task,
	// with the events as passed and not masked, to count them.
	OnStored func(drafts []Draft)
	// Changes receives what transactions publish, after their commit; nil for
	// nobody.
	Changes *change.Feed
}

// Recorder runs the transactions that append events.
type Recorder struct{ cfg RecorderConfig }

// NewRecorder creates a Recorder.
func NewRecorder(cfg RecorderConfig) *Recorder {
	if cfg.OnStored == nil {
		cfg.OnStored = func([]Draft) {}
	}
	return &Recorder{cfg}
}

// Tx is a transaction that may append events.
type Tx struct {
	*db.Queries

	recorder *Recorder
	kept     map[any]any
	touched  map[[2]string]bool
	appends  []db.AppendEventsParams
	stored   [][]Draft
	last     []func(ctx context.Context, q *db.Queries) error
	after    []func()
}

// Tx runs fn in one transaction. After the commit, watchers are notified and the
// functions passed to AfterCommit run, in order. If fn returns an Outside, it is called
// again.
func (r *Recorder) Tx(ctx context.Context, fn func(tx *Tx) error) error {
	return r.TxLocked(ctx, func(*db.Queries) error { return nil }, fn)
}

// TxLocked is Tx with locks that are taken on the way to fn's first statement;
// see store.Store.TxLocked.
func (r *Recorder) TxLocked(ctx context.Context, lock func(ahead *db.Queries) error, fn func(tx *Tx) error) error {
	kept := map[any]any{}
	for {
		err := r.once(ctx, kept, lock, fn)
		var first *Outside
		if !errors.As(err, &first) {
			return err
		}
		if err := first.Do(ctx); err != nil {
			return err
		}
	}
}

// Outside is the error of a transaction which finds that something must be done
// first that takes long, such as asking a node, and so must not be done while it
// holds locks. The transaction is rolled back, Do is called, and the transaction
// begins again. What Do finds out is kept with Keep.
type Outside struct {
	Do func(ctx context.Context) error
}

// Error implements error.
func (o *Outside) Error() string {
	return "something must be done first that cannot be done within the transaction"
}

// Keep returns the value that is kept under a key, and creates it the first time. It
// survives the restart of a transaction; see Outside.
func Keep[V any](tx *Tx, key any, made func() V) V {
	if v, ok := tx.kept[key].(V); ok {
		return v
	}
	v := made()
	tx.kept[key] = v
	return v
}

func (r *Recorder) once(ctx context.Context, kept map[any]any, lock func(ahead *db.Queries) error, fn func(tx *Tx) error) error {
	tx := &Tx{recorder: r, kept: kept, touched: map[[2]string]bool{}}
	if err := r.cfg.Store.TxLocked(ctx, lock, func(q, last *db.Queries) error {
		tx.Queries = q
		if err := fn(tx); err != nil {
			return err
		}
		for _, p := range tx.appends {
			// The number that it would answer is not seen.
			if _, err := last.AppendEvents(ctx, p); err != nil {
				return fmt.Errorf("append events of %s: %w", p.TaskID, err)
			}
		}
		for _, fn := range tx.last {
			if err := fn(ctx, last); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, drafts := range tx.stored {
		r.cfg.OnStored(drafts)
	}
	for key := range tx.touched {
		r.cfg.Notify(key[0], key[1])
	}
	for _, fn := range tx.after {
		fn()
	}
	return nil
}

// Publish announces a change to the other parts of this hub when the transaction
// is committed.
func (tx *Tx) Publish(c change.Change) { tx.AfterCommit(func() { tx.recorder.Publish(c) }) }

// Publish announces a change that is committed already.
func (r *Recorder) Publish(c change.Change) { r.cfg.Changes.Publish(c) }

// WithCommit has fn's statements sent together with COMMIT: they cost no round
// trip, and what they answer is not seen.
func (tx *Tx) WithCommit(fn func(ctx context.Context, q *db.Queries) error) {
	tx.last = append(tx.last, fn)
}

// Redact masks what must not be stored of an organisation.
func (tx *Tx) Redact(orgID string) *redact.Redactor { return tx.recorder.cfg.Redact.Org(orgID) }

// AfterCommit runs fn when the transaction is committed, and not at all when it
// is not.
func (tx *Tx) AfterCommit(fn func()) { tx.after = append(tx.after, fn) }

// LeaseRef is who may append to a task: the worker that holds its lease.
type LeaseRef struct {
	OrgID, TaskID string
	Attempt       int32
	LeaseHash     []byte
	// Batch counts the attempt's batches from 1, so that a repeated one is
	// stored once; 0 does not count.
	Batch int64
}

// AppendLeased numbers and stores events of a leased task in one round trip. It returns
// the last number, 0 for a batch that was stored before, and held false if the lease has
// ended.
func (r *Recorder) AppendLeased(ctx context.Context, h LeaseRef, drafts ...Draft) (seq int64, held bool, err error) {
	types, payloads, err := r.encode(h.OrgID, h.TaskID, drafts)
	if err != nil {
		return 0, false, err
	}
	seq, err = r.cfg.Store.AppendLeasedEvents(ctx, db.AppendLeasedEventsParams{
		OrgID: h.OrgID, TaskID: h.TaskID, Attempt: h.Attempt, LeaseHash: h.LeaseHash, Batch: h.Batch, Types: types, Payloads: payloads,
	})
	if store.IsNotFound(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("append events of %s: %w", h.TaskID, err)
	}
	if seq > 0 {
		r.cfg.OnStored(drafts)
	}
	r.cfg.Notify(h.OrgID, h.TaskID)
	return seq, true, nil
}

// AppendWith stores events with a statement of the caller, together with the change that
// they describe: store gets their types and their payloads as masked JSON, and watchers
// are notified if it returns no error.
func (r *Recorder) AppendWith(orgID, taskID string, store func(types, payloads []string) error, drafts ...Draft) error {
	types, payloads, err := r.encode(orgID, taskID, drafts)
	if err != nil {
		return err
	}
	if err := store(types, payloads); err != nil {
		return err
	}
	r.cfg.OnStored(drafts)
	r.cfg.Notify(orgID, taskID)
	return nil
}

// encode returns the drafts' types and their payloads as masked JSON.
func (r *Recorder) encode(orgID, taskID string, drafts []Draft) (types, payloads []string, err error) {
	for _, d := range drafts {
		payload := d.Payload
		if payload == nil {
			payload = map[string]any{}
		}
		data, err := json.Marshal(r.cfg.Redact.Org(orgID).Map(payload))
		if err != nil {
			return nil, nil, fmt.Errorf("encode %s event of %s: %w", d.Type, taskID, err)
		}
		types = append(types, string(d.Type))
		payloads = append(payloads, string(data))
	}
	return types, payloads, nil
}

// Append has events of one task numbered and stored, in the order of the calls,
// when the transaction commits.
func (tx *Tx) Append(orgID, taskID string, actor Actor, drafts ...Draft) error {
	if len(drafts) == 0 {
		return nil
	}
	types, payloads, err := tx.recorder.encode(orgID, taskID, drafts)
	if err != nil {
		return err
	}
	tx.touched[[2]string{orgID, taskID}] = true
	tx.stored = append(tx.stored, drafts)
	at := slices.IndexFunc(tx.appends, func(p db.AppendEventsParams) bool { return p.TaskID == taskID && p.OrgID == orgID })
	if at < 0 {
		at = len(tx.appends)
		tx.appends = append(tx.appends, db.AppendEventsParams{OrgID: orgID, TaskID: taskID})
	}
	p := &tx.appends[at]
	p.Types, p.Payloads = append(p.Types, types...), append(p.Payloads, payloads...)
	for range types {
		p.ActorKinds, p.ActorIds = append(p.ActorKinds, actor.Kind), append(p.ActorIds, actor.ID)
	}
	return nil
}
