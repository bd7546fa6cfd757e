package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// Usage is what an organisation and its users have used of their quotas in the current
// billing period.
type Usage struct {
	Plan

	// Period is its name, for example 2026-11.
	Period string
	// Used counts the runs that began in it, Carried those left over from the one before.
	Used, Carried int64
	ResetsAt      time.Time

	upgradeURL string
	today      string
	// accounts are those of the organisation and of users, by name; made when they are
	// needed. Nil if nothing has a limit other than the runs of the plan.
	accounts map[string]*account
	limits   *Subscription

	taken map[string]int64 // runs that began since and have yet to be counted, by user
}

// account is what one of them may use, has used, and what its runs may still use.
type account struct {
	name                   string
	limits, used, reserved Amounts
}

// left returns how much of a limit is left; Unlimited without one.
func (a *account) left(m metric) int64 {
	most := *m.of(&a.limits)
	if most == 0 {
		return Unlimited
	}
	return max(0, most-*m.of(&a.used)-*m.of(&a.reserved))
}

// whose names the owner of an account in messages.
func (a *account) whose() string {
	if a.name == Organisation {
		return "the organisation's quota"
	}
	return "the quota of " + a.name
}

// Allowed is how many runs the plan gives the period; Unlimited for no end.
func (s *Usage) Allowed() int64 {
	if s.Runs == Unlimited {
		return Unlimited
	}
	return s.Runs + s.Carried
}

// Remaining is how many runs of the plan may still begin; Unlimited for no end.
func (s *Usage) Remaining() int64 {
	if s.Runs == Unlimited {
		return Unlimited
	}
	return max(0, s.Allowed()-s.Used)
}

// WaitReason returns why no run of the plan may begin; empty if one may.
func (s *Usage) WaitReason() string {
	if s.Remaining() != 0 {
		return ""
	}
	return fmt.Sprintf("all %d runs of the plan %s for %s are used; waits for %s, or for another plan (deckhand quota set NAME)%s",
		s.Allowed(), s.Name, s.Period, s.ResetsAt.Format("2 January"), s.hint())
}

// hint says where a larger plan can be had.
func (s *Usage) hint() string {
	if s.upgradeURL == "" {
		return ""
	}
	return "; larger plans: " + s.upgradeURL
}

// warnAt is the share of a period's runs at which a notification is sent, as for budgets.
const warnAt = 0.8

// Consume counts a run of a user that starts, and returns the warnings that follow from it.
func (s *Usage) Consume(user string) []event.Draft {
	s.Used++
	if s.taken == nil {
		s.taken = map[string]int64{}
	}
	s.taken[user]++
	for _, a := range s.of(user) {
		a.used.Runs++
	}
	if s.Runs == Unlimited {
		return nil
	}
	payload := map[string]any{"plan": s.Name, "period": s.Period, "used": s.Used, "runs": s.Allowed(), "resets_at": s.ResetsAt}
	switch near := int64(warnAt*float64(s.Allowed()) + 0.5); s.Used {
	case s.Allowed():
		return []event.Draft{{Type: eventkind.PlanReached, Payload: payload}}
	case near:
		return []event.Draft{{Type: eventkind.PlanWarning, Payload: payload}}
	}
	return nil
}

// Store counts the runs that were taken when the transaction commits.
func (s *Usage) Store(tx *event.Tx, orgID string) {
	if len(s.taken) == 0 {
		return
	}
	p := db.CountRunsParams{OrgID: orgID, Day: s.today, Users: slices.Sorted(maps.Keys(s.taken))}
	for _, user := range p.Users {
		p.Runs = append(p.Runs, s.taken[user])
		p.Total += s.taken[user]
	}
	rolls := s.RollsOver
	carry := db.CarryRunsParams{OrgID: orgID, Period: s.Period, Carried: s.Carried}
	tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
		if rolls {
			if err := q.CarryRuns(ctx, carry); err != nil {
				return fmt.Errorf("store the runs that %s had left: %w", orgID, err)
			}
		}
		if err := q.CountRuns(ctx, p); err != nil {
			return fmt.Errorf("count the runs of %s: %w", orgID, err)
		}
		return nil
	})
}

// Usage returns an organisation's usage in the current billing period, read with q. The
// caller must hold the organisation's admission lock if it is going to consume runs. Without
// counts, nothing is looked up that has no limit.
func (s *Service) Usage(ctx context.Context, q *db.Queries, orgID string, counts bool) (*Usage, error) {
	h, err := s.Subscription(ctx, q, orgID)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Now().UTC()
	period := PeriodAt(now, h.CycleDay)
	out := &Usage{
		Plan: h.Plan, Period: period.Name, ResetsAt: period.Until, today: now.Format(time.DateOnly), upgradeURL: s.cfg.UpgradeURL, limits: h,
	}
	if h.Runs == Unlimited && len(h.Limits) == 0 && !counts {
		return out, nil
	}
	// Read before what is used: a run that ends in between is counted twice, and not never.
	var reserved []db.ReservedByUsersRow
	if len(h.Limits) > 0 {
		if reserved, err = q.ReservedByUsers(ctx, orgID); err != nil {
			return nil, fmt.Errorf("read what the runs of %s may use: %w", orgID, err)
		}
	}
	used, err := usedIn(ctx, q, orgID, Organisation, period)
	if err != nil {
		return nil, err
	}
	out.Used = used.Runs
	if h.RollsOver && h.Runs != Unlimited {
		if out.Carried, err = carried(ctx, q, orgID, h, period); err != nil {
			return nil, err
		}
	}
	if len(h.Limits) > 0 {
		return out, out.load(ctx, q, orgID, period, used, reserved)
	}
	return out, nil
}

// carried returns the runs that were left of the period before.
func carried(ctx context.Context, q *db.Queries, orgID string, h *Subscription, period Period) (int64, error) {
	last := period.before(h.CycleDay)
	rows, err := q.CarriedRuns(ctx, db.CarriedRunsParams{OrgID: orgID, Periods: []string{period.Name, last.Name}})
	if err != nil {
		return 0, fmt.Errorf("read the runs that %s had left: %w", orgID, err)
	}
	known := map[string]int64{}
	for _, row := range rows {
		known[row.Period] = row.Carried
	}
	if n, begun := known[period.Name]; begun {
		return n, nil
	}
	if _, ran := known[last.Name]; !ran && !h.Since.Before(period.Since) {
		return 0, nil
	}
	before, err := usedIn(ctx, q, orgID, Organisation, last)
	if err != nil {
		return 0, err
	}
	return min(h.Runs, max(0, h.Runs+known[last.Name]-before.Runs)), nil
}

func usedIn(ctx context.Context, q *db.Queries, orgID, user string, p Period) (Amounts, error) {
	row, err := q.UsedSince(ctx, db.UsedSinceParams{
		OrgID: orgID, UserName: user, Since: p.Since.Format(time.DateOnly), Until: p.Until.Format(time.DateOnly),
	})
	if err != nil {
		return Amounts{}, fmt.Errorf("read what %s has used: %w", orgID, err)
	}
	return Amounts{Runs: row.Runs, Iterations: row.Iterations, Tokens: row.Tokens, ToolCalls: row.ToolCalls}, nil
}

// mostUsers is how many users' use one admission reads.
const mostUsers = 100_000

// load reads what has limits. used is what the organisation has used, and reserved what its
// runs may still use.
func (s *Usage) load(ctx context.Context, q *db.Queries, orgID string, period Period, used Amounts, reserved []db.ReservedByUsersRow) error {
	s.accounts = map[string]*account{Organisation: {name: Organisation, limits: s.limits.Limits[Organisation], used: used}}
	if s.limits.limitsUsers() {
		rows, err := q.UsedByUsers(ctx, db.UsedByUsersParams{
			OrgID: orgID, Since: period.Since.Format(time.DateOnly), Until: period.Until.Format(time.DateOnly), MaxRows: mostUsers,
		})
		if err != nil {
			return fmt.Errorf("read what the users of %s have used: %w", orgID, err)
		}
		for _, row := range rows {
			s.account(row.UserName).used = Amounts{Runs: row.Runs, Iterations: row.Iterations, Tokens: row.Tokens, ToolCalls: row.ToolCalls}
		}
	}
	for _, row := range reserved {
		for _, a := range s.of(row.UserName) {
			a.reserved.add(Amounts{Iterations: row.Iterations, Tokens: row.Tokens, ToolCalls: row.ToolCalls})
		}
	}
	return nil
}

func (s *Usage) account(user string) *account {
	a := s.accounts[user]
	if a == nil {
		a = &account{name: user, limits: s.limits.limitsOf(user)}
		s.accounts[user] = a
	}
	return a
}

// of returns the accounts that a user's runs draw on; none if nothing has a limit.
func (s *Usage) of(user string) []*account {
	if s.accounts == nil {
		return nil
	}
	return []*account{s.account(user), s.accounts[Organisation]}
}
