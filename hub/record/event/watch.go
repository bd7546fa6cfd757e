package event

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Cursor is a place in an organisation's commit order: a transaction, then an
// event in it. The zero value is before everything.
type Cursor struct {
	xid uint64
	id  int64
}

// ParseCursor reads what String wrote; "" is the beginning.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	xid, id, ok := strings.Cut(s, ".")
	x, err1 := strconv.ParseUint(xid, 10, 64)
	i, err2 := strconv.ParseInt(id, 10, 64)
	if !ok || err1 != nil || err2 != nil || i < 0 {
		return Cursor{}, fault.New(fault.Invalid, "cursor is not one that a watch has answered").WithFix("leave it out to begin again")
	}
	return Cursor{x, i}, nil
}

// String is the cursor as callers keep it.
func (c Cursor) String() string {
	return strconv.FormatUint(c.xid, 10) + "." + strconv.FormatInt(c.id, 10)
}

func (c Cursor) before(d Cursor) bool { return c.xid < d.xid || (c.xid == d.xid && c.id < d.id) }

// WatcherConfig holds the dependencies of a Watcher.
type WatcherConfig struct {
	Store *store.Store
	Hints Hints
	// Poll is how often to look without a hint.
	Poll time.Duration
	// Heartbeat is how long nothing may be sent.
	Heartbeat time.Duration
	// SlowAfter is how long a caller may block on one item; 0 for 10 s. The watch of a
	// slower caller ends: see Run.
	SlowAfter time.Duration
	// OnSent, if set, is called for each event that was sent to a follower, with the time
	// since it was written.
	OnSent func(lag time.Duration)
}

// Watcher streams events.
type Watcher struct {
	cfg       WatcherConfig
	open      atomic.Int64
	listeners listeners
	pages     pages
}

// NewWatcher creates a Watcher.
func NewWatcher(cfg WatcherConfig) *Watcher {
	if cfg.SlowAfter <= 0 {
		cfg.SlowAfter = 10 * time.Second
	}
	if cfg.OnSent == nil {
		cfg.OnSent = func(time.Duration) {}
	}
	return &Watcher{cfg: cfg, listeners: listeners{hints: cfg.Hints}, pages: newPages()}
}

// Open returns how many watches run.
func (w *Watcher) Open() int64 { return w.open.Load() }

// Hint sends to hint, without waiting, when a task has new events. Nothing that happens after it has
// returned is missed, until leave is called; but while the bus cannot be reached, nothing is sent.
func (w *Watcher) Hint(ctx context.Context, orgID, taskID string, hint chan<- struct{}) (leave func(), err error) {
	return w.listeners.join(ctx, orgID, []string{taskID}, hint)
}

// Watch is what to stream.
type Watch struct {
	OrgID string
	// TaskIDs are the tasks to watch; none for the whole organisation.
	TaskIDs []string
	// Selected are the events to send; none for all.
	Selected eventkind.Selection
	// Detailed are tasks whose events of every type are sent, and also their thinking if
	// the whole organisation is watched.
	Detailed []string
	After    Cursor
	Follow   bool
	Thinking bool
	// Flush, if set, is called after each page: send may hold back what it is given until
	// then.
	Flush func() error
	// Live are things to send to a follower between the events, which are stored nowhere; nil
	// for none.
	Live <-chan any
	// Cut, if set, breaks the caller's connection: it is called while send waits
	// for a caller that reads nothing at all, after three times SlowAfter.
	Cut func()
}

// Item is one thing streamed: an event, a piece of thinking, something of Watch.Live, or a
// heartbeat when all are empty.
type Item struct {
	Cursor   Cursor
	Event    *Stored
	Thinking []byte
	Live     any
}

// Stored is an event as it was read. All who read it at the same time share it.
type Stored struct {
	db.EventsAfterRow

	forms [forms]struct {
		once sync.Once
		made atomic.Pointer[any]
	}
}

// Form is a form in which events are sent.
type Form int

// The forms.
const (
	// AsMessage is a message of the API.
	AsMessage Form = iota
	// AsServerSent is a server-sent event.
	AsServerSent
	// AsUpdate is a message of a WebSocket.
	AsUpdate

	forms
)

// Once returns the result of make for the event in a form, which is called once for all
// watches that share the event. It must not be modified.
func (s *Stored) Once(form Form, make func() any) any {
	f := &s.forms[form]
	f.once.Do(func() { f.made.Store(new(make())) })
	return *f.made.Load()
}

// Made returns what a watch has made of the event for a form; nil if none has.
func (s *Stored) Made(form Form) any {
	if made := s.forms[form].made.Load(); made != nil {
		return *made
	}
	return nil
}

const (
	// thinkingBuffer is how many pieces may wait for a slow watcher; more are
	// dropped, since the finished turn is an event.
	thinkingBuffer = 256
	// A hint may come before its event is below the snapshot's horizon: the
	// watcher looks again after this time, doubled each time up to Poll.
	firstRetry = 2 * time.Millisecond
	// minGap is the least time between two reads that hints ask for.
	minGap = 10 * time.Millisecond
)

// Run sends what is stored after the cursor, then, when following, what is live, in
// commit order, with no gap and no repeat. It ends when all watched tasks have ended,
// when send fails, or with ctx.
//
// send is called by one goroutine; a slow one slows only this watch, since each watch
// reads for itself, sharing pages with those that are or were at the same position, and keeps
// one page. It uses memory and a connection meanwhile, so a caller that takes longer
// than SlowAfter for one item gets fault.WatchSlow, and may continue from its cursor
// later. A cursor from before what retention has deleted ends with fault.CursorExpired.
func (w *Watcher) Run(ctx context.Context, q Watch, send func(Item) error) error {
	w.open.Add(1)
	defer w.open.Add(-1)
	if err := w.expired(ctx, q); err != nil {
		return err
	}
	send, flush, stop := w.timed(q, send)
	defer stop()
	now := func(item Item) error {
		if err := send(item); err != nil {
			return err
		}
		return flush()
	}
	what := q.OrgID + " " + strings.Join(q.TaskIDs, " ")
	defer w.pages.open(what)()
	hint := make(chan struct{}, 1)
	var thinking chan []byte
	if q.Follow {
		if q.Thinking {
			thinking = make(chan []byte, thinkingBuffer)
		}
		stop, err := w.subscribe(ctx, q, hint, thinking)
		if err != nil {
			return err
		}
		defer stop()
	}
	at := q.After
	var until Cursor // where a watch that does not follow ends
	if !q.Follow {
		var err error
		if until, err = w.newest(ctx, q); err != nil {
			return err
		}
	}
	wait, most := w.cfg.Poll, firstBatch
	lastSent := time.Now()
	timer := time.NewTimer(w.cfg.Poll)
	defer timer.Stop()
	for {
		lastRead := time.Now()
		read, err := w.pages.get(ctx, position{what, at, most, q.Follow}, func(ctx context.Context) (page, error) { return w.read(ctx, q, at, most) })
		if err != nil {
			return err
		}
		most = read.most
		for _, row := range read.rows {
			if at, err = cursorOf(row.EventsAfterRow); err != nil {
				return err
			}
			wait = w.cfg.Poll
			if !q.selects(row) {
				continue
			}
			if err := send(Item{Cursor: at, Event: row}); err != nil {
				return err
			}
			lastSent = time.Now()
		}
		done := !read.more && (q.Follow && read.ended || !q.Follow && !at.before(until))
		if !done && time.Since(lastSent) >= w.cfg.Heartbeat {
			if err := send(Item{Cursor: at}); err != nil {
				return err
			}
			lastSent = time.Now()
		}
		// Also when more follows: what matches may be rare, and what was sent is waited for.
		if err := flush(); err != nil {
			return err
		}
		if q.Follow {
			w.sent(q, read.rows)
		}
		switch {
		case done:
			return nil
		case read.more:
			continue
		case !q.Follow:
			wait = firstRetry // committed, but an older transaction still runs
		}
		timer.Reset(wait)
		for again := true; again; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-hint:
				wait = firstRetry
				// Where much happens, one read takes in all of a moment.
				if rest := minGap - time.Since(lastRead); rest > 0 {
					timer.Reset(rest)
				} else {
					again = false
				}
			case <-timer.C:
				wait, again = min(2*wait, w.cfg.Poll), false
			case piece := <-thinking:
				if err := now(Item{Cursor: at, Thinking: piece}); err != nil {
					return err
				}
				lastSent = time.Now()
			case what := <-q.Live:
				if err := now(Item{Cursor: at, Live: what}); err != nil {
					return err
				}
				lastSent = time.Now()
			}
		}
	}
}

// selects reports whether a watch sends an event.
func (q Watch) selects(row *Stored) bool {
	return len(q.Selected) == 0 || q.Selected.Has(row.Type, row.Payload) || slices.Contains(q.Detailed, row.TaskID)
}

// sent reports how long events took to a reader.
func (w *Watcher) sent(q Watch, rows []*Stored) {
	at := time.Now()
	for _, row := range rows {
		if q.selects(row) {
			w.cfg.OnSent(at.Sub(row.Time))
		}
	}
}

// timed returns send and q.Flush with the time that they may take.
func (w *Watcher) timed(q Watch, send func(Item) error) (timed func(Item) error, flush func() error, stop func()) {
	if q.Flush == nil {
		q.Flush = func() error { return nil }
	}
	// A watch without Cut sets no timer: with a thousand watches of one event that cost shows.
	watch, rest := func() {}, func() {}
	if q.Cut != nil {
		watchdog := time.AfterFunc(3*w.cfg.SlowAfter, q.Cut)
		watchdog.Stop()
		watch, rest = func() { watchdog.Reset(3 * w.cfg.SlowAfter) }, func() { watchdog.Stop() }
	}
	within := func(call func() error) error {
		begin := time.Now()
		watch()
		err := call()
		rest()
		if took := time.Since(begin); err == nil && took > w.cfg.SlowAfter {
			return slow(took)
		}
		return err
	}
	return func(item Item) error { return within(func() error { return send(item) }) },
		func() error { return within(q.Flush) }, rest
}

// slow returns the error for a watch whose caller did not read for so long.
func slow(took time.Duration) error {
	return fault.New(fault.Aborted, "the watch read nothing for %s, and holds memory of the hub for what it does not read",
		took.Round(time.Second)).
		WithCode(fault.WatchSlow).WithFix("watch again from the last cursor; nothing is lost")
}

func (w *Watcher) subscribe(ctx context.Context, q Watch, hint chan<- struct{}, thinking chan<- []byte) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	s, err := w.listeners.join(ctx, q.OrgID, q.TaskIDs, hint)
	if err != nil {
		return nil, err
	}
	stops = append(stops, s)
	if q.Thinking {
		of := q.TaskIDs
		if len(of) == 0 {
			of = q.Detailed
		}
		for _, id := range of {
			s, err := w.cfg.Hints.SubscribeThinking(q.OrgID, id, func(piece []byte) {
				select {
				case thinking <- piece:
				default:
				}
			})
			if err != nil {
				stop()
				return nil, fmt.Errorf("subscribe to thinking of %s: %w", id, err)
			}
			stops = append(stops, s)
		}
	}
	return stop, nil
}

// Now returns the cursor after everything that can be read now. Transactions that are
// still running come after it, including those that began before others that have ended.
func (w *Watcher) Now(ctx context.Context) (Cursor, error) {
	horizon, err := w.cfg.Store.EventHorizon(ctx)
	if err != nil {
		return Cursor{}, fmt.Errorf("find what is committed: %w", err)
	}
	xid, err := strconv.ParseUint(horizon, 10, 64)
	if err != nil || xid == 0 {
		return Cursor{}, fmt.Errorf("read the horizon %q: %w", horizon, err)
	}
	return Cursor{xid - 1, math.MaxInt64}, nil
}

// List returns events of one task: the last ones below before or, where after is
// set, the first ones above it; in order, at most n.
func (w *Watcher) List(ctx context.Context, orgID, taskID string, before, after int64, n int32) ([]db.EventsAfterRow, error) {
	if after > 0 {
		rows, err := w.cfg.Store.TaskEventsFrom(ctx, db.TaskEventsFromParams{TaskID: taskID, OrgID: orgID, AfterSeq: after, MaxRows: n})
		if err != nil {
			return nil, fmt.Errorf("read events after %d: %w", after, err)
		}
		out := make([]db.EventsAfterRow, len(rows))
		for i, row := range rows {
			out[i] = db.EventsAfterRow(row)
		}
		return out, nil
	}
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := w.cfg.Store.TaskEventsBefore(ctx, db.TaskEventsBeforeParams{TaskID: taskID, OrgID: orgID, BeforeSeq: before, MaxRows: n})
	if err != nil {
		return nil, fmt.Errorf("read events before %d: %w", before, err)
	}
	out := make([]db.EventsAfterRow, len(rows))
	for i, row := range rows {
		out[len(rows)-1-i] = db.EventsAfterRow(row)
	}
	return out, nil
}

// newest returns the place of the last event that is committed now.
func (w *Watcher) newest(ctx context.Context, q Watch) (Cursor, error) {
	ids := q.TaskIDs
	if ids == nil {
		ids = []string{}
	}
	row, err := w.cfg.Store.NewestEvent(ctx, db.NewestEventParams{OrgID: q.OrgID, TaskIds: ids})
	if store.IsNotFound(err) {
		return Cursor{}, nil
	}
	if err != nil {
		return Cursor{}, fmt.Errorf("find the newest event: %w", err)
	}
	return cursorOf(db.EventsAfterRow{ID: row.ID, Xid: row.Xid})
}

func (w *Watcher) ended(ctx context.Context, q Watch, at Cursor) (bool, error) {
	ended, err := w.cfg.Store.WatchEnded(ctx, db.WatchEndedParams{
		OrgID: q.OrgID, TaskIds: q.TaskIDs, AfterXid: strconv.FormatUint(at.xid, 10), AfterID: at.id,
	})
	if err != nil {
		return false, fmt.Errorf("read the state of the watched tasks: %w", err)
	}
	return ended, nil
}

func cursorOf(row db.EventsAfterRow) (Cursor, error) {
	xid, err := strconv.ParseUint(row.Xid, 10, 64)
	if err != nil {
		return Cursor{}, fmt.Errorf("read the transaction of event %d: %w", row.ID, err)
	}
	return Cursor{xid, row.ID}, nil
}
