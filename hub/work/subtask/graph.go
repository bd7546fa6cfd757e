package subtask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Edge is between two agents: one may give work to the other, or did.
type Edge struct {
	// From and To are agents' names; the same for subtasks of an agent's own.
	From, To string
	Kind     EdgeKind
	// Permitted reports that the newest version of From's persona lists To.
	Permitted bool
	// Tasks is how many were created, and Live how many of them have not ended; for
	// Waiting of them, From's run waits.
	Tasks, Live, Waiting int64
	// Tokens and CostMicros are what they used themselves.
	Tokens, CostMicros int64
	// RecentTokens is what calls of models used in the time that Recent says.
	RecentTokens int64
	// LastAt is when the last was given; nil for never.
	LastAt *time.Time
}

// Recent is how far back recent tokens go.
const Recent = 5 * time.Minute

// EdgeKind is how work is given.
type EdgeKind string

// The kinds.
const (
	Delegates EdgeKind = "delegate"
	HandsOver EdgeKind = "handoff"
	Splits    EdgeKind = "subtask"
)

// agentsPage is how many agents are read at once.
const agentsPage = 200

// Graph returns who may give work to whom among the agents that v sees, by their newest
// personas, and who did, in order.
func (s *Service) Graph(ctx context.Context, v visibility.Viewer) ([]Edge, error) {
	type ends struct {
		from, to string
		kind     EdgeKind
	}
	edges := map[ends]*Edge{}
	at := func(from, to string, kind EdgeKind) *Edge {
		key := ends{from, to, kind}
		if edges[key] == nil {
			edges[key] = &Edge{From: from, To: to, Kind: kind}
		}
		return edges[key]
	}
	personas, targets := map[string]*persona.Persona{}, []string{}
	for after := ""; ; {
		rows, err := s.cfg.Agents.List(ctx, v, agent.Filter{After: after, Limit: agentsPage})
		if err != nil {
			return nil, fmt.Errorf("list the agents: %w", err)
		}
		for _, row := range rows {
			a := row.Agent
			after = a.Name
			p, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, v.OrgID, a.ID, a.CurrentVersion)
			if err != nil {
				return nil, err
			}
			personas[a.Name], targets = p, slices.Concat(targets, p.Agents.Delegate, p.Agents.Handoff)
		}
		if len(rows) < agentsPage {
			break
		}
	}
	slices.Sort(targets)
	targets, err := visibility.Names(ctx, s.cfg.Store.Queries, v, slices.Compact(targets))
	if err != nil {
		return nil, err
	}
	for name, p := range personas {
		for kind, names := range map[EdgeKind][]string{Delegates: p.Agents.Delegate, HandsOver: p.Agents.Handoff} {
			for _, to := range names {
				if slices.Contains(targets, to) {
					at(name, to, kind).Permitted = true
				}
			}
		}
		if slices.Contains(p.Tools, toolname.CreateSubtask) {
			at(name, name, Splits).Permitted = true
		}
	}
	given, err := s.cfg.Store.AgentEdges(ctx, db.AgentEdgesParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Since: time.Now().Add(-Recent)})
	if err != nil {
		return nil, fmt.Errorf("see who gave work to whom: %w", err)
	}
	for _, row := range given {
		e := at(row.FromName, row.ToName, kindOf(row))
		e.Tasks, e.Live, e.Waiting = row.Tasks, row.Live, row.Waiting
		e.Tokens, e.RecentTokens, e.CostMicros, e.LastAt = row.Tokens, row.RecentTokens, row.CostMicros, &row.LastAt
	}
	out := make([]Edge, 0, len(edges))
	for _, e := range edges {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

func kindOf(row db.AgentEdgesRow) EdgeKind {
	switch {
	case row.Handed:
		return HandsOver
	case row.FromName == row.ToName:
		return Splits
	}
	return Delegates
}

// maxTriggers bounds a graph.
const maxTriggers = 1000

// Triggers returns the triggers of agents that v sees with what the tasks that they started
// used, by name.
func (s *Service) Triggers(ctx context.Context, v visibility.Viewer) ([]db.TriggerEdgesRow, error) {
	rows, err := s.cfg.Store.TriggerEdges(ctx, db.TriggerEdgesParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Since: time.Now().Add(-Recent), MaxRows: maxTriggers})
	if err != nil {
		return nil, fmt.Errorf("see what triggers started: %w", err)
	}
	return rows, nil
}
