package budget

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Name names a budget.
type Name struct {
	Scope    Scope
	ObjectID string
	Every    Every
}

// Budget is a limit, and how much of it is spent in the current period.
type Budget struct {
	Name

	// Limit is in micro-dollars; negative for none.
	Limit           int64
	Spent, Reserved int64
	// SetBy is empty for a default.
	SetBy string
}

// byDefault returns the limit that applies if none was set. A task's own is in its
// persona, and a lineage has that of its first task: both have the task's id.
func (l *Ledger) byDefault(ctx context.Context, orgID string, n Name) (int64, error) {
	switch n.Scope {
	case Organisation:
		switch n.Every {
		case Day:
			return DefaultDay, nil
		case Month:
			return DefaultMonth, nil
		}
	case Task, Lineage:
		t, err := l.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: n.ObjectID})
		if err != nil {
			return 0, fmt.Errorf("load task %s: %w", n.ObjectID, err)
		}
		return l.cfg.Cap(ctx, orgID, t.Task.AgentID, t.Task.AgentVersion, t.Task.Override)
	}
	return none, nil
}

// Get returns a budget.
func (l *Ledger) Get(ctx context.Context, orgID string, n Name) (Budget, error) {
	if err := n.check(); err != nil {
		return Budget{}, err
	}
	b := Budget{Name: n}
	set, err := l.cfg.Store.GetBudget(ctx, db.GetBudgetParams{OrgID: orgID, Scope: string(n.Scope), ObjectID: n.ObjectID, Every: string(n.Every)})
	switch {
	case err == nil:
		b.SetBy, b.Limit = set.SetBy, none
		if set.LimitMicros != nil {
			b.Limit = *set.LimitMicros
		}
	case !store.IsNotFound(err):
		return b, fmt.Errorf("load the budget of %s %s: %w", n.Scope, n.ObjectID, err)
	default:
		if b.Limit, err = l.byDefault(ctx, orgID, n); err != nil {
			return b, err
		}
	}
	a, err := l.cfg.Store.GetBudgetAccount(ctx, db.GetBudgetAccountParams{
		OrgID: orgID, Scope: string(n.Scope), ObjectID: n.ObjectID, Period: n.Every.Of(l.cfg.Now()),
	})
	if err != nil && !store.IsNotFound(err) {
		return b, fmt.Errorf("load the account of %s %s: %w", n.Scope, n.ObjectID, err)
	}
	b.Spent, b.Reserved = a.SpentMicros, a.ReservedMicros
	return b, nil
}

// check refuses budgets that no call draws on.
func (n Name) check() error {
	if (n.Scope == Task || n.Scope == Lineage) && n.Every != Once {
		return fault.New(fault.Invalid, "every is %q for a %s, which has one budget for all time", n.Every, n.Scope).WithFix("leave every out")
	}
	if n.Scope == User && n.Every == Once {
		return fault.New(fault.Invalid, "every is empty for a user").WithFix("use day or month")
	}
	return nil
}

// List returns a page of the organisation's budgets, then of the others that people
// have set, and the next page's token.
func (l *Ledger) List(ctx context.Context, orgID, page string, size int32) ([]Budget, string, error) {
	object, rest, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	scope, every, _ := strings.Cut(rest, "/")
	after := Name{Scope(scope), object, Every(every)}
	p := db.ListBudgetsParams{OrgID: orgID, MaxRows: size + 1}
	var names []Name
	if page == "" || after.Scope == Organisation {
		names = []Name{{Organisation, orgID, Day}, {Organisation, orgID, Month}, {Organisation, orgID, Once}}
		names = names[slices.Index(names, after)+1:]
	} else {
		p.AfterScope, p.AfterObject, p.AfterEvery = scope, object, every
	}
	rows, err := l.cfg.Store.ListBudgets(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list budgets: %w", err)
	}
	for _, row := range rows {
		names = append(names, Name{Scope(row.Scope), row.ObjectID, Every(row.Every)})
	}
	names, next := store.Page(names, size, func(last Name) string {
		return store.NameToken(last.ObjectID, string(last.Scope)+"/"+string(last.Every))
	})
	out := make([]Budget, len(names))
	for i, n := range names {
		if out[i], err = l.Get(ctx, orgID, n); err != nil {
			return nil, "", err
		}
	}
	return out, next, nil
}

// Set sets a limit: micro-dollars, or a negative one for none. nil restores the default.
// It applies from the next call on.
func (l *Ledger) Set(ctx context.Context, orgID string, n Name, limit *int64, by event.Actor) (Budget, error) {
	before, err := l.Get(ctx, orgID, n)
	if err != nil {
		return Budget{}, err
	}
	byDefault := int64(none)
	if limit == nil {
		if byDefault, err = l.byDefault(ctx, orgID, n); err != nil {
			return Budget{}, err
		}
	}
	if err := l.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error { return l.set(ctx, tx, orgID, before, limit, byDefault, by) }); err != nil {
		return Budget{}, err
	}
	return l.Get(ctx, orgID, n)
}

// SetIn is Set in a transaction, to a limit in micro-dollars.
func (l *Ledger) SetIn(ctx context.Context, tx *event.Tx, orgID string, n Name, limit int64, by event.Actor) error {
	before, err := l.Get(ctx, orgID, n)
	if err != nil {
		return err
	}
	return l.set(ctx, tx, orgID, before, &limit, none, by)
}

func (l *Ledger) set(ctx context.Context, tx *event.Tx, orgID string, before Budget, limit *int64, byDefault int64, by event.Actor) (err error) {
	n, now := before.Name, byDefault
	if limit != nil {
		now = *limit
	}
	if raised := now < 0 || before.Limit >= 0 && now > before.Limit; raised && l.cfg.Raised != nil {
		if err := l.cfg.Raised(ctx, tx, orgID, n, by); err != nil {
			return err
		}
	}
	after := map[string]any{"every": string(n.Every)}
	if limit == nil {
		after["limit_micros"] = "default"
		err = tx.ClearBudget(ctx, db.ClearBudgetParams{OrgID: orgID, Scope: string(n.Scope), ObjectID: n.ObjectID, Every: string(n.Every)})
	} else {
		after["limit_micros"] = *limit
		p := db.SetBudgetParams{OrgID: orgID, Scope: string(n.Scope), ObjectID: n.ObjectID, Every: string(n.Every), SetBy: by.ID}
		if *limit >= 0 {
			p.LimitMicros = limit
		}
		err = tx.SetBudget(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("store the budget of %s %s: %w", n.Scope, n.ObjectID, err)
	}
	return audit.Append(tx, audit.Entry{
		OrgID: orgID, By: by, Action: "budget.set", ObjectKind: string(n.Scope), ObjectID: n.ObjectID,
		Before: map[string]any{"every": string(n.Every), "limit_micros": before.Limit}, After: after,
	})
}
