package quota

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Grant is what a run may use of quotas; nil for what has none. It is reserved from its
// admission to its end, when what it has used takes its place.
type Grant struct{ Iterations, Tokens, ToolCalls *int64 }

// Run is a run that is to be admitted, for the first time or again.
type Run struct {
	User string
	// Counted reports that it was admitted before, with Granted.
	Counted bool
	Granted Grant
	// Used is what it has used so far, and Wants what its limits allow in all.
	Used, Wants Amounts
}

// CallsPerIteration is how many calls of tools a run may make for each iteration that its
// limits allow, while a quota of tool calls is set.
const CallsPerIteration = 10

// Limited reports whether anything has a quota other than the runs of the plan.
func (s *Usage) Limited() bool { return s.accounts != nil }

// Grant returns what a run may use, at most what it wants and what is left, or why it must
// wait. It reserves nothing.
func (s *Usage) Grant(r Run) (g Grant, wait string) {
	accounts := s.of(r.User)
	for _, m := range metrics {
		left, scarce := int64(Unlimited), (*account)(nil)
		for _, a := range accounts {
			if n := a.left(m); n != Unlimited && (left == Unlimited || n < left) {
				left, scarce = n, a
			}
		}
		switch {
		case left == Unlimited:
		case m.granted == nil:
			if !r.Counted && left == 0 {
				return Grant{}, s.usedUp(m, scarce)
			}
		default:
			used, wants, own := *m.of(&r.Used), *m.of(&r.Wants), r.has(m)
			own += min(left, max(0, wants-own))
			if own <= used && used < wants {
				return Grant{}, s.usedUp(m, scarce)
			}
			*m.granted(&g) = &own
		}
	}
	return g, ""
}

// has returns what a run was granted of a metric, or has used if that is more.
func (r *Run) has(m metric) int64 {
	used := *m.of(&r.Used)
	if before := *m.granted(&r.Granted); before != nil {
		used = max(used, *before)
	}
	return used
}

// Reserve reserves what a run was granted.
func (s *Usage) Reserve(r Run, g Grant) {
	var more Amounts
	for _, m := range metrics {
		if m.granted == nil || *m.granted(&g) == nil {
			continue
		}
		*m.of(&more) = **m.granted(&g)
		if r.Counted {
			*m.of(&more) = max(0, *m.of(&more)-r.has(m))
		}
	}
	for _, a := range s.of(r.User) {
		a.reserved.add(more)
	}
}

func (s *Usage) usedUp(m metric, a *account) string {
	return fmt.Sprintf("all %d %s of %s for %s are used or reserved by unfinished runs; starts on %s, when a run ends, or when the quota is raised (deckhand quota limit)%s",
		*m.of(&a.limits), m.words, a.whose(), s.Period, s.ResetsAt.Format("2 January"), s.hint())
}

// Blocks reports whether an organisation's new runs are refused when none is left.
func (s *Service) Blocks(ctx context.Context, q *db.Queries, orgID string) (bool, error) {
	h, err := s.Subscription(ctx, q, orgID)
	if err != nil {
		return false, err
	}
	return h.Hard, nil
}

// CheckRun refuses a task of a user for which no run is left, counting those that wait in the
// queue. The transaction must hold the lock of the organisation's submissions: then any number of
// hubs together accept no more tasks than there are runs.
//
// A run may be admitted while it is counted. Since what waits is counted first, that run counts
// twice then, and never not at all; so a refusal is looked at again.
func (s *Service) CheckRun(ctx context.Context, q *db.Queries, orgID, user string) (err error) {
	for range checks {
		if err = s.checkRun(ctx, q, orgID, user); !fault.Is(err, fault.Exhausted) {
			return err
		}
	}
	return err
}

// checks is how often the runs that are left are counted before a task is refused.
const checks = 2

func (s *Service) checkRun(ctx context.Context, q *db.Queries, orgID, user string) error {
	queued, err := q.QueuedRuns(ctx, db.QueuedRunsParams{OrgID: orgID, UserName: user})
	if err != nil {
		return fmt.Errorf("count the tasks of %s that wait: %w", orgID, err)
	}
	usage, err := s.Usage(ctx, q, orgID, true)
	if err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		fix := fmt.Sprintf("wait for %s, or have an administrator raise it: deckhand quota set, deckhand quota limit", usage.ResetsAt.Format("2 January"))
		if s.cfg.UpgradeURL != "" {
			fix += "; larger plans: " + s.cfg.UpgradeURL
		}
		return fault.New(fault.Exhausted, format, args...).WithCode(fault.BudgetLimit).WithFix("%s", fix)
	}
	if left := usage.Remaining(); left != Unlimited && left <= queued.Organisation {
		return refuse("all %d runs of the plan %s for %s are used, or wait in the queue", usage.Allowed(), usage.Name, usage.Period)
	}
	for _, a := range usage.of(user) {
		waiting := queued.Own
		if a.name == Organisation {
			waiting = queued.Organisation
		}
		for i, m := range metrics {
			left := a.left(m)
			if i == 0 && left != Unlimited {
				left = max(0, left-waiting)
			}
			if left == 0 {
				return refuse("all %d %s of %s for %s are used or reserved by unfinished runs", *m.of(&a.limits), m.words, a.whose(), usage.Period)
			}
		}
	}
	return nil
}

// Line is what is used of one quota.
type Line struct {
	// Scope is "organisation" or "user".
	Scope, Metric         string
	Used, Reserved, Limit int64
}

// Lines returns the quotas that a user's runs draw on, the user's first.
func (s *Usage) Lines(user string) []Line {
	var out []Line
	for _, a := range s.of(user) {
		scope := "user"
		if a.name == Organisation {
			scope = "organisation"
		}
		for _, m := range metrics {
			if most := *m.of(&a.limits); most > 0 {
				out = append(out, Line{Scope: scope, Metric: m.name, Used: *m.of(&a.used), Reserved: *m.of(&a.reserved), Limit: most})
			}
		}
	}
	return out
}

// Past is what was used in a period, or by a user.
type Past struct {
	Period
	Amounts

	User string
}

// mostShown is how many users are listed.
const mostShown = 200

// History returns what an organisation or a user used in the current billing period and in
// those before it, at most n of them.
func (s *Service) History(ctx context.Context, orgID, user string, n int) ([]Past, error) {
	h, err := s.Subscription(ctx, s.cfg.Store.Queries, orgID)
	if err != nil {
		return nil, err
	}
	var out []Past
	period := PeriodAt(s.cfg.Now(), h.CycleDay)
	for range n {
		used, err := usedIn(ctx, s.cfg.Store.Queries, orgID, user, period)
		if err != nil {
			return nil, err
		}
		out = append(out, Past{Period: period, Amounts: used, User: user})
		period = period.before(h.CycleDay)
	}
	return out, nil
}

// Users returns what users used in the current billing period, those with the most runs first.
func (s *Service) Users(ctx context.Context, orgID string) ([]Past, error) {
	h, err := s.Subscription(ctx, s.cfg.Store.Queries, orgID)
	if err != nil {
		return nil, err
	}
	period := PeriodAt(s.cfg.Now(), h.CycleDay)
	rows, err := s.cfg.Store.UsedByUsers(ctx, db.UsedByUsersParams{
		OrgID: orgID, Since: period.Since.Format("2006-01-02"), Until: period.Until.Format("2006-01-02"), MaxRows: mostShown,
	})
	if err != nil {
		return nil, fmt.Errorf("read what the users of %s have used: %w", orgID, err)
	}
	out := make([]Past, 0, len(rows))
	for _, row := range rows {
		out = append(out, Past{Period: period, User: row.UserName, Amounts: Amounts{Runs: row.Runs, Iterations: row.Iterations, Tokens: row.Tokens, ToolCalls: row.ToolCalls}})
	}
	return out, nil
}
