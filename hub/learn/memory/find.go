package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Filter selects entries.
type Filter struct {
	// Scope is the only one, if it is set; its id may be a name.
	Scope *scope.Scope
	Types []string
	// Query is words of key and value, or a part of the key.
	Query string
	// Source is the kind of the only source, or empty.
	Source      string
	Unconfirmed bool
	Deleted     bool
	PageToken   string
	PageSize    int32
}

// Find returns the id of an entry that v sees, by an id or the beginning of one.
func (m *Memories) Find(ctx context.Context, v visibility.Viewer, ref string) (string, error) {
	rows, err := m.cfg.Store.FindMemories(ctx, db.FindMemoriesParams{
		OrgID: v.OrgID, Ref: ref, Prefix: store.Prefix("memory", ref), Viewer: v.Name, Administrator: v.All,
	})
	return store.One("memory", ref, rows, err)
}

// Get returns an entry that v sees.
func (m *Memories) Get(ctx context.Context, v visibility.Viewer, id string) (Entry, error) {
	rows, err := m.Entries(ctx, v, []string{id})
	if err != nil {
		return Entry{}, err
	}
	if len(rows) == 0 {
		return Entry{}, missing(id)
	}
	return rows[0], nil
}

// Entries returns those of some entries that v sees, in the order of ids.
func (m *Memories) Entries(ctx context.Context, v visibility.Viewer, ids []string) ([]Entry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := m.cfg.Store.GetMemories(ctx, db.GetMemoriesParams{OrgID: v.OrgID, Ids: ids, Viewer: v.Name, Administrator: v.All})
	if err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	place := map[string]int{}
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(rows, func(a, b Entry) int { return place[a.Memory.ID] - place[b.Memory.ID] })
	return rows, nil
}

func missing(id string) error {
	return fault.New(fault.NotFound, "there is no memory %q", id).WithFix("list what there is with: deckhand memory list").WithObject(id)
}

// scopes returns those of a filter: the one that it names, or all with entries that v sees.
func (m *Memories) scopes(ctx context.Context, v visibility.Viewer, f Filter) ([]scope.Scope, error) {
	q := m.cfg.Store.Queries
	if f.Scope != nil {
		s, err := scope.Resolve(ctx, q, v, *f.Scope)
		if err != nil {
			return nil, err
		}
		return []scope.Scope{s}, scope.Check(ctx, q, v, s, false)
	}
	rows, err := q.MemoryScopes(ctx, db.MemoryScopesParams{OrgID: v.OrgID, Viewer: v.Name, Administrator: v.All})
	if err != nil {
		return nil, fmt.Errorf("list the scopes of memories: %w", err)
	}
	out := make([]scope.Scope, len(rows))
	for i, row := range rows {
		out[i] = scope.Scope{Kind: scope.Kind(row.Kind), ID: row.ID}
	}
	return out, nil
}

// List returns a page of the entries that v sees, the last changed first, and the next page's
// token.
func (m *Memories) List(ctx context.Context, v visibility.Viewer, f Filter) ([]Entry, string, error) {
	p := db.ListMemoriesParams{
		OrgID: v.OrgID, Types: f.Types, Query: f.Query, Source: f.Source, Unconfirmed: f.Unconfirmed, Deleted: f.Deleted, MaxRows: f.PageSize + 1,
	}
	if p.Types == nil {
		p.Types = []string{}
	}
	if f.PageToken != "" {
		at, id, err := store.ParsePageToken(f.PageToken)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	scopes, err := m.scopes(ctx, v, f)
	if err != nil {
		return nil, "", err
	}
	p.Scopes = scopeNames(scopes)
	if v.Name != "" {
		if p.UserID, err = userID(ctx, m.cfg.Store.Queries, v); err != nil {
			return nil, "", err
		}
	}
	m.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := p
		all.MaxRows = maxRows
		_, err := q.ListMemories(ctx, all)
		return err
	})
	rows, err := m.cfg.Store.ListMemories(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list memories: %w", err)
	}
	rows, next := store.Page(rows, f.PageSize, func(last db.ListMemoriesRow) string { return store.PageToken(last.UpdatedAt, last.ID) })
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	out, err := m.Entries(ctx, v, ids)
	return out, next, err
}

// Versions returns a page of an entry's versions, the newest first.
func (m *Memories) Versions(ctx context.Context, v visibility.Viewer, ref, page string, size int32) ([]db.ListMemoryVersionsRow, string, error) {
	before, err := store.ParseNumberToken(page)
	if err != nil {
		return nil, "", err
	}
	id, err := m.Find(ctx, v, ref)
	if err != nil {
		return nil, "", err
	}
	rows, err := m.cfg.Store.ListMemoryVersions(ctx, db.ListMemoryVersionsParams{OrgID: v.OrgID, MemoryID: id, Before: before, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list the versions of memory %s: %w", id, err)
	}
	rows, next := store.Page(rows, size, func(last db.ListMemoryVersionsRow) string { return store.NumberToken(last.Version) })
	return rows, next, nil
}
