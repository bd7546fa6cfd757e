package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// Usage is what an organisation has used of its plan in the month that is now.
type Usage struct {
	Plan

	// Period is the month, for example 2026-11.
	Period string
	// Used counts the runs that began in the month, Carried those left over from the
	// month before.
	Used, Carried int64
	ResetsAt      time.Time

	taken int64 // runs that began since and have yet to be counted
}

// Allowed is how many runs the month has; Unlimited for no end.
func (s *Usage) Allowed() int64 {
	if s.Runs == Unlimited {
		return Unlimited
	}
	return s.Runs + s.Carried
}

// Remaining is how many runs may still begin; Unlimited for no end.
func (s *Usage) Remaining() int64 {
	if s.Runs == Unlimited {
		return Unlimited
	}
	return max(0, s.Allowed()-s.Used)
}

// WaitReason returns why no run may begin; empty if one may.
func (s *Usage) WaitReason() string {
	if s.Remaining() != 0 {
		return ""
	}
	return fmt.Sprintf("all %d runs of the plan %s for %s are used; waits for %s, or for another plan (deckhand quota set NAME)",
		s.Allowed(), s.Name, s.Period, s.ResetsAt.Format("2 January"))
}

// warnAt is the share of a month's runs at which a notification is sent, as for budgets.
const warnAt = 0.8

// Consume counts a run that starts, and returns the warnings that follow from it.
func (s *Usage) Consume() []event.Draft {
	s.Used++
	s.taken++
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
	if s.taken == 0 {
		return
	}
	p := db.CountRunsParams{OrgID: orgID, Period: s.Period, Runs: s.taken, Carried: s.Carried}
	tx.WithCommit(func(ctx context.Context, q *db.Queries) error {
		if err := q.CountRuns(ctx, p); err != nil {
			return fmt.Errorf("count the runs of %s: %w", orgID, err)
		}
		return nil
	})
}

// Usage returns an organisation's usage in the current month, read with q. The caller
// must hold the organisation's admission lock if it is going to consume runs. Without
// counts, an unlimited plan is not looked up.
func (s *Service) Usage(ctx context.Context, q *db.Queries, orgID string, counts bool) (*Usage, error) {
	h, err := s.Subscription(ctx, q, orgID)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Now().UTC()
	out := &Usage{Plan: h.Plan, Period: Month(now), ResetsAt: next(now)}
	if h.Runs == Unlimited && !counts {
		return out, nil
	}
	before := Month(now.AddDate(0, 0, -now.Day()))
	rows, err := q.PlanPeriods(ctx, db.PlanPeriodsParams{OrgID: orgID, Periods: []string{out.Period, before}})
	if err != nil {
		return nil, fmt.Errorf("read the runs of %s: %w", orgID, err)
	}
	var begun, ran bool
	var last db.PlanPeriodsRow
	for _, row := range rows {
		switch row.Period {
		case out.Period:
			out.Used, out.Carried, begun = row.Runs, row.Carried, true
		case before:
			last, ran = row, true
		}
	}
	if h.RollsOver && h.Runs != Unlimited && !begun && (ran || h.Since.Before(out.ResetsAt.AddDate(0, -1, 0))) {
		out.Carried = min(h.Runs, max(0, h.Runs+last.Carried-last.Runs))
	}
	if !h.RollsOver {
		out.Carried = 0
	}
	return out, nil
}
