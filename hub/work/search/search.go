// Package search finds words in the histories of tasks: in their titles, goals and
// results, in the arguments of calls, in what calls returned to the model, and in what
// people and agents said. Parse reads a query, Service finds, and Indexer, which the
// leader runs, keeps the index.
//
// The index is written from the events, a second or two behind the work: no call waits
// for it, and after an update it reads the histories that were there before. An event
// that is read twice is stored once. Of each text the first 32,768 characters are
// indexed. Of a command's output that is what the model was given, its beginning and its
// end; whole logs stay on their node, where the viewer of a log searches them.
//
// What a caller may not see is not found: the same rule as for the list of tasks. The
// texts that are stored have their secrets masked, and are masked again for secrets that
// became known later. A search that takes longer than five seconds is ended, with an
// error that says how to narrow it.
package search

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// What is searched.
const (
	Task    = "task"
	Call    = "call"
	Output  = "output"
	Message = "message"
)

// Kinds are all of them.
var Kinds = []string{Task, Call, Output, Message}

// timeout ends a search whose words are in too much.
const timeout = 5 * time.Second

// behind is how old an event is at least that is said not to be indexed yet.
const behind = 10 * time.Second

// atOnce is how many searches an organisation may have at once: each holds a connection to the
// database for as long as it takes. waiting is how many more wait for their turn.
const atOnce, waiting = 3, 16

// Service finds. Its methods may be called at once.
type Service struct {
	store  *store.Store
	redact *redact.Redactor
	lanes  *fair.Lanes
}

// New returns a service that masks what is secret in what it finds.
func New(s *store.Store, r *redact.Redactor) *Service {
	return &Service{store: s, redact: r, lanes: fair.NewLanes(atOnce, waiting)}
}

// Page says which part of the results is wanted.
type Page struct {
	Size  int32
	Token string
}

// Hit is a text that has the words.
type Hit struct {
	db.SearchEntriesRow

	Excerpt []Piece
}

// Search returns a page of what v sees, the newest first, and the next page's token.
// agentID and taskID are those of the query's Agent and Task, as ids; empty for all.
func (s *Service) Search(ctx context.Context, v task.Viewer, q Query, agentID, taskID string, page Page) (hits []Hit, next string, err error) {
	params := db.SearchEntriesParams{
		OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Kinds: q.Kinds, States: q.States, CostOver: q.CostOver,
		Since: q.Since, Until: q.Until, MaxRows: page.Size + 1,
	}
	marks := []string{orgMark(v.OrgID)}
	if q.Tool != "" {
		marks = append(marks, toolMark(q.Tool))
	}
	params.Query = q.tsquery(marks...)
	if agentID != "" {
		params.AgentID = &agentID
	}
	if taskID != "" {
		params.TaskID = &taskID
	}
	if page.Token != "" {
		at, id, err := store.ParsePageToken(page.Token)
		if err != nil {
			return nil, "", err
		}
		if params.BeforeID, err = strconv.ParseInt(id, 10, 64); err != nil {
			return nil, "", invalid("page_token", "is not one of this list", "leave it out to begin again")
		}
		params.BeforeTime = &at
	}
	done, err := s.lanes.Take(ctx, v.OrgID)
	if err != nil {
		return nil, "", err
	}
	defer done()
	var rows []db.SearchEntriesRow
	err = s.store.Tx(ctx, func(tx *db.Queries) error {
		if _, err := tx.PrepareSearch(ctx, strconv.FormatInt(timeout.Milliseconds(), 10)); err != nil {
			return fmt.Errorf("prepare the search: %w", err)
		}
		rows, err = tx.SearchEntries(ctx, params)
		return err
	})
	switch {
	case store.TookTooLong(err):
		return nil, "", fault.New(fault.Deadline, "the search took longer than %s", timeout).WithCause(err).
			WithFix("add a rarer word, or a filter such as agent:, task: or after:")
	case err != nil:
		return nil, "", fmt.Errorf("search: %w", err)
	}
	if len(rows) > int(page.Size) {
		rows = rows[:page.Size]
		last := rows[len(rows)-1]
		next = store.PageToken(last.At, strconv.FormatInt(last.ID, 10))
	}
	known := s.redact.Org(v.OrgID)
	for _, row := range rows {
		hits = append(hits, Hit{SearchEntriesRow: row, Excerpt: q.excerpt(known.String(row.Content))})
	}
	return hits, next, nil
}

// IndexedUntil returns the time of the first event of an organisation that is not
// indexed although it is some time old; nil where the index is up to date.
func (s *Service) IndexedUntil(ctx context.Context, orgID string) (*time.Time, error) {
	from, err := s.store.SearchPositions(ctx, &orgID)
	if err != nil || len(from) == 0 {
		return nil, err
	}
	horizon, err := s.store.EventHorizon(ctx)
	if err != nil {
		return nil, fmt.Errorf("find what is committed: %w", err)
	}
	events, err := eventsAfter(ctx, s.store, from[0], horizon, 1)
	if err != nil || len(events) == 0 || time.Since(events[0].Time) < behind {
		return nil, err
	}
	return &events[0].Time, nil
}

func orgMark(id string) string    { return "=org " + id }
func toolMark(name string) string { return "=tool " + name }
