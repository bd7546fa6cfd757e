package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
)

// Filter selects items for List; empty fields match all.
type Filter struct {
	TaskID, AgentID string
	Kinds           []Kind
	States          []State
	// Dangerous leaves only calls in which something dangerous was recognised, or whose
	// tool is of the dangerous category.
	Dangerous bool
	// Mine leaves only items of the viewer's own tasks and agents.
	Mine bool
	// Text must occur in the item, without regard to case.
	Text string
	// TimeLeft orders by the time left instead of newest first: open items first, by what
	// expires first, then what waits without end, the longest wait first; then closed
	// items, the newest first.
	TimeLeft bool
	// Snoozed selects by what the user UserID has snoozed.
	Snoozed   Snoozed
	UserID    string
	PageSize  int32
	PageToken string
}

// Page is a part of a list.
type Page struct {
	Rows []db.GetInboxItemRow
	// Next is the token of the next page, empty after the last.
	Next string
	// Alike is how many open items that the viewer sees are like each, by
	// InboxItem.Alike.
	Alike map[string]int32
	// Counts is how many items of each kind match all filters but that of kinds. It is set
	// on the first page.
	Counts map[Kind]int32
	// Snoozes is until when the user has snoozed items of the page, by their ids.
	Snoozes map[string]time.Time
	// NextSnooze is when the next snoozed item comes back. It is set on the first page.
	NextSnooze *time.Time
}

// List returns a page of the items that a viewer sees.
func (s *Service) List(ctx context.Context, v task.Viewer, f Filter) (Page, error) {
	params := db.ListInboxItemsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Dangerous: f.Dangerous, Words: f.Text, MaxRows: f.PageSize + 1, Snoozed: string(f.Snoozed), UserID: f.UserID}
	if f.Mine {
		params.Mine = v.Name
	}
	if f.TaskID != "" {
		params.TaskID = &f.TaskID
	}
	if f.AgentID != "" {
		params.AgentID = &f.AgentID
	}
	for _, k := range f.Kinds {
		params.Kinds = append(params.Kinds, string(k))
	}
	for _, st := range f.States {
		params.States = append(params.States, string(st))
	}
	s.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListInboxItems(ctx, all)
		return err
	})
	list := s.newestFirst
	if f.TimeLeft {
		list = s.byTimeLeft
	}
	var page Page
	var err error
	if page.Rows, page.Next, err = list(ctx, params, f); err != nil {
		return page, err
	}
	if page.Snoozes, err = s.Snoozes.Until(ctx, v.OrgID, f.UserID, page.Rows...); err != nil {
		return page, err
	}
	if page.Alike, err = s.alike(ctx, v, page.Rows); err != nil || f.PageToken != "" {
		return page, err
	}
	if page.NextSnooze, err = s.Snoozes.next(ctx, v.OrgID, f.UserID); err != nil {
		return page, err
	}
	counts, err := s.cfg.Store.CountInboxItems(ctx, db.CountInboxItemsParams{
		OrgID: params.OrgID, TaskID: params.TaskID, AgentID: params.AgentID, States: params.States, Dangerous: params.Dangerous, Words: params.Words,
		Mine: params.Mine, SeesAll: params.SeesAll, Viewer: params.Viewer, Snoozed: params.Snoozed, UserID: params.UserID,
	})
	if err != nil {
		return page, fmt.Errorf("count inbox items: %w", err)
	}
	page.Counts = map[Kind]int32{}
	for _, row := range counts {
		page.Counts[Kind(row.Kind)] = row.Items
	}
	return page, nil
}

func (s *Service) newestFirst(ctx context.Context, params db.ListInboxItemsParams, f Filter) (out []db.GetInboxItemRow, next string, err error) {
	if f.PageToken != "" {
		at, id, err := store.ParsePageToken(f.PageToken)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListInboxItems(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list inbox items: %w", err)
	}
	rows, next = store.Page(rows, f.PageSize, func(last db.ListInboxItemsRow) string {
		return store.PageToken(last.InboxItem.AskedAt, last.InboxItem.ID)
	})
	for _, row := range rows {
		out = append(out, db.GetInboxItemRow(row))
	}
	return out, next, nil
}

func (s *Service) byTimeLeft(ctx context.Context, p db.ListInboxItemsParams, f Filter) (out []db.GetInboxItemRow, next string, err error) {
	params := db.ListInboxItemsByPlaceParams{
		OrgID: p.OrgID, TaskID: p.TaskID, AgentID: p.AgentID, Kinds: p.Kinds, States: p.States, Dangerous: p.Dangerous, Words: p.Words, Mine: p.Mine,
		SeesAll: p.SeesAll, Viewer: p.Viewer, MaxRows: p.MaxRows, Snoozed: p.Snoozed, UserID: p.UserID,
	}
	if params.AfterPlace, params.AfterID, err = store.ParsePlaceToken(f.PageToken); err != nil {
		return nil, "", err
	}
	rows, err := s.cfg.Store.ListInboxItemsByPlace(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list inbox items: %w", err)
	}
	rows, next = store.Page(rows, f.PageSize, func(last db.ListInboxItemsByPlaceRow) string {
		return store.PlaceToken(last.InboxItem.Place, last.InboxItem.ID)
	})
	for _, row := range rows {
		out = append(out, db.GetInboxItemRow(row))
	}
	return out, next, nil
}

// Alike returns how many open items that a viewer sees are like an item.
func (s *Service) Alike(ctx context.Context, v task.Viewer, row db.GetInboxItemRow) (int32, error) {
	n, err := s.alike(ctx, v, []db.GetInboxItemRow{row})
	return n[row.InboxItem.Alike], err
}

func (s *Service) alike(ctx context.Context, v task.Viewer, rows []db.GetInboxItemRow) (map[string]int32, error) {
	params := db.CountAlikeParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name}
	for _, row := range rows {
		if State(row.InboxItem.State) == Open && row.InboxItem.Alike != "" {
			params.Alike = append(params.Alike, row.InboxItem.Alike)
		}
	}
	out := map[string]int32{}
	if len(params.Alike) == 0 {
		return out, nil
	}
	counts, err := s.cfg.Store.CountAlike(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("count inbox items that look alike: %w", err)
	}
	for _, row := range counts {
		out[row.Alike] = row.Items
	}
	return out, nil
}
