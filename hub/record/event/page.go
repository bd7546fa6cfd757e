package event

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/coalesce"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

const (
	// What a watch has read and not sent yet is held in memory: from firstBatch up to batch
	// events, and no more than batchBytes of their payloads, or one event.
	firstBatch = 32
	batch      = 256
	batchBytes = 32 << 10
	// aligned is at which ids pages end, if they can: watches of the same tasks that are at
	// different events read the same pages from then on.
	aligned = 16
	// keptPages is how many pages are kept for watches that will read them next, and keptFor
	// for how long.
	keptPages = 64
	keptFor   = 10 * time.Second
)

// position is where a watch is: after a cursor in the events of some tasks. It reads so many at
// most, and may have to know that the tasks have ended.
type position struct {
	what   string
	at     Cursor
	most   int
	follow bool
}

// page is what was read at once. more says that there may be more to read now, and ended that
// nothing will follow it, since all tasks have ended.
type page struct {
	rows        []*Stored
	more, ended bool
	// most is how many to ask for next.
	most int
	// large says that it is one event of more than batchBytes, which is not kept.
	large bool
}

// pages are shared by the watches at the same position: those that are there at the same time
// share a query. What follows an event in a page that is followed by others does not change
// any more, so that slow watches of one task read and encode its events once, and not each.
//
// A kept page has up to batchBytes of payloads and the forms that were made of its events, so
// that all take some 10 MB at most. None is kept where nobody could share it.
type pages struct {
	reads coalesce.Group[position, page]
	kept  *ttlcache.Cache[position, page]

	mu      sync.Mutex
	watches map[string]int // by what they watch
}

func newPages() pages {
	return pages{kept: ttlcache.New[position, page](keptPages, keptFor), watches: map[string]int{}}
}

// open counts a watch until it is closed. With the last one that watches the same, its pages go.
func (p *pages) open(what string) (closed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[what]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.watches[what]--; p.watches[what] == 0 {
			delete(p.watches, what)
			p.kept.RemoveFunc(func(at position) bool { return at.what == what })
		}
	}
}

// keep keeps a page if a second watch may read it.
func (p *pages) keep(at position, one page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watches[at.what] > 1 {
		p.kept.Add(at, one)
	}
}

// get returns the page at a position, which read reads.
func (p *pages) get(ctx context.Context, at position, read func(context.Context) (page, error)) (page, error) {
	if kept, ok := p.kept.Get(at); ok {
		return kept, nil
	}
	return p.reads.Do(ctx, at, func(ctx context.Context) (page, error) {
		one, err := read(ctx)
		if err == nil && one.more && !one.large {
			p.keep(at, one)
		}
		return one, err
	})
}

// pageOf keeps the first rows of those that were read when most were asked for: up to
// batchBytes, up to an aligned one if others follow, and at least one.
func pageOf[R db.EventsAfterRow | db.TaskEventsAfterRow](rows []R, most int) page {
	fit, held := 0, 0
	for _, row := range rows {
		if held += len(db.EventsAfterRow(row).Payload); held > batchBytes && fit > 0 {
			break
		}
		fit++
	}
	p := page{more: len(rows) == most || fit < len(rows), most: most, large: fit == 1 && len(db.EventsAfterRow(rows[0]).Payload) > batchBytes}
	switch {
	case fit == most:
		p.most = min(2*most, batch)
	case fit < len(rows) && 2*fit <= most:
		p.most = most / 2
	}
	if p.more {
		for n := fit; n > 0; n-- {
			if db.EventsAfterRow(rows[n-1]).ID%aligned == 0 {
				fit = n
				break
			}
		}
	}
	for _, row := range rows[:fit] {
		p.rows = append(p.rows, &Stored{EventsAfterRow: db.EventsAfterRow(row)})
	}
	return p
}

func (w *Watcher) read(ctx context.Context, q Watch, at Cursor, most int) (page, error) {
	xid := strconv.FormatUint(at.xid, 10)
	// A statement of its own: the next one's snapshot must be younger.
	horizon, err := w.cfg.Store.EventHorizon(ctx)
	if err != nil {
		return page{}, fmt.Errorf("find what is committed: %w", err)
	}
	if len(q.TaskIDs) == 0 {
		rows, err := w.cfg.Store.EventsAfter(ctx, db.EventsAfterParams{
			OrgID: q.OrgID, AfterXid: xid, AfterID: at.id, Horizon: horizon, MaxRows: int32(most), //nolint:gosec // at most batch
		})
		if err != nil {
			return page{}, fmt.Errorf("read events: %w", err)
		}
		return pageOf(rows, most), nil
	}
	rows, err := w.cfg.Store.TaskEventsAfter(ctx, db.TaskEventsAfterParams{
		OrgID: q.OrgID, TaskIds: q.TaskIDs, AfterXid: xid, AfterID: at.id, Horizon: horizon, MaxRows: int32(most), //nolint:gosec // at most batch
	})
	if err != nil {
		return page{}, fmt.Errorf("read events: %w", err)
	}
	p := pageOf(rows, most)
	if p.more || !q.Follow {
		return p, nil
	}
	if n := len(p.rows); n > 0 {
		if at, err = cursorOf(p.rows[n-1].EventsAfterRow); err != nil {
			return page{}, err
		}
	}
	p.ended, err = w.ended(ctx, q, at)
	return p, err
}
