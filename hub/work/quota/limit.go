package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// The names under which limits are kept that are not one user's own.
const (
	// Organisation is the whole organisation.
	Organisation = ""
	// EachUser is every user who has no limits of their own.
	EachUser = "*"
)

// Amounts are amounts of everything that has a quota. As limits, 0 is no limit.
type Amounts struct {
	Runs       int64 `json:"runs,omitempty"`
	Iterations int64 `json:"iterations,omitempty"`
	Tokens     int64 `json:"tokens,omitempty"`
	ToolCalls  int64 `json:"tool_calls,omitempty"`
}

// metric is one of the amounts.
type metric struct {
	name, words string
	of          func(a *Amounts) *int64
	changed     func(c *Change) *int64
	// granted is what a run may use of it; nil for runs, which are not granted.
	granted func(g *Grant) **int64
}

// metrics are all of them, in the order in which they are shown.
var metrics = []metric{
	{"runs", "runs", func(a *Amounts) *int64 { return &a.Runs }, func(c *Change) *int64 { return c.Runs }, nil},
	{
		"iterations", "iterations", func(a *Amounts) *int64 { return &a.Iterations }, func(c *Change) *int64 { return c.Iterations },
		func(g *Grant) **int64 { return &g.Iterations },
	},
	{
		"tokens", "tokens", func(a *Amounts) *int64 { return &a.Tokens }, func(c *Change) *int64 { return c.Tokens },
		func(g *Grant) **int64 { return &g.Tokens },
	},
	{
		"tool_calls", "tool calls", func(a *Amounts) *int64 { return &a.ToolCalls }, func(c *Change) *int64 { return c.ToolCalls },
		func(g *Grant) **int64 { return &g.ToolCalls },
	},
}

func (a *Amounts) add(b Amounts) {
	for _, m := range metrics {
		*m.of(a) += *m.of(&b)
	}
}

// Period is a billing period: a month that begins on the organisation's cycle day.
type Period struct {
	// Name is its month, or its first day if that is not the first of a month.
	Name         string
	Since, Until time.Time
}

// PeriodAt returns the period that a time is in, in UTC.
func PeriodAt(t time.Time, cycleDay int) Period {
	t = t.UTC()
	since := time.Date(t.Year(), t.Month(), cycleDay, 0, 0, 0, 0, time.UTC)
	if since.After(t) {
		since = since.AddDate(0, -1, 0)
	}
	p := Period{Name: since.Format(time.DateOnly), Since: since, Until: since.AddDate(0, 1, 0)}
	if cycleDay == 1 {
		p.Name = since.Format("2006-01")
	}
	return p
}

// before returns the period before one.
func (p Period) before(cycleDay int) Period { return PeriodAt(p.Since.Add(-time.Second), cycleDay) }

// limitsOf returns the limits of a user.
func (h *Subscription) limitsOf(user string) Amounts {
	if own, ok := h.Limits[user]; ok {
		return own
	}
	return h.Limits[EachUser]
}

// limitsUsers reports whether any user has limits.
func (h *Subscription) limitsUsers() bool {
	n := len(h.Limits)
	if _, ok := h.Limits[Organisation]; ok {
		n--
	}
	return n > 0
}

// Change is a change of limits; nil fields stay, and 0 ends a limit.
type Change struct{ Runs, Iterations, Tokens, ToolCalls *int64 }

// SetLimits sets what the organisation, each user or one user may use in a billing period.
func (s *Service) SetLimits(ctx context.Context, orgID, user string, c Change, by event.Actor) error {
	if c == (Change{}) {
		return fault.New(fault.Invalid, "quota has no limit that is to change").WithFix("give at least one of runs, iterations, tokens and tool_calls")
	}
	if user != Organisation && user != EachUser {
		_, err := s.cfg.Store.UserByName(ctx, db.UserByNameParams{OrgID: orgID, Name: user})
		if store.IsNotFound(err) {
			return fault.New(fault.NotFound, "there is no user %q", user).WithFix("see deckhand user list")
		}
		if err != nil {
			return fmt.Errorf("find user %s: %w", user, err)
		}
	}
	object := user
	if user == Organisation {
		object = orgID
	}
	return s.change(ctx, orgID, func(tx *event.Tx, current *Subscription) (audit.Entry, error) {
		before := current.Limits[user]
		after := before
		for _, m := range metrics {
			if to := m.changed(&c); to != nil {
				*m.of(&after) = *to
			}
		}
		entry := audit.Entry{
			OrgID: orgID, By: by, Action: "quota.set", ObjectKind: "quota", ObjectID: object, Before: fields(before), After: fields(after),
		}
		if after == (Amounts{}) {
			return entry, tx.DeleteQuota(ctx, db.DeleteQuotaParams{OrgID: orgID, UserName: user})
		}
		return entry, tx.PutQuota(ctx, db.PutQuotaParams{
			OrgID: orgID, UserName: user, Runs: set(after.Runs), Iterations: set(after.Iterations), Tokens: set(after.Tokens), ToolCalls: set(after.ToolCalls),
		})
	})
}

// set returns nil for no limit.
func set(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func fields(a Amounts) map[string]any {
	out := map[string]any{}
	for _, m := range metrics {
		if n := *m.of(&a); n > 0 {
			out[m.name] = n
		}
	}
	return out
}
