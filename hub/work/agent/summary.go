package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// summaryDays is how many days of cost a summary has, today included.
const summaryDays = 7

// Summary is an agent's recent past.
type Summary struct {
	db.AgentSummariesRow
	// DayCosts is what calls of models cost on each of the last days in UTC, in
	// micro-dollars, today last.
	DayCosts []int64
}

// Summaries returns what the first n agents that v sees, after a name, did last, spent this
// week, and have queued: of all tasks for administrators, of their own for others.
func (s *Service) Summaries(ctx context.Context, v visibility.Viewer, after string, n int32) ([]Summary, error) {
	params := db.AgentSummariesParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, AfterName: after, MaxRows: n}
	costs := db.AgentDayCostsParams{OrgID: v.OrgID, AgentIds: []string{}}
	if !v.All {
		params.UserName, costs.UserName = &v.Name, &v.Name
	}
	rows, err := s.store.AgentSummaries(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("see what agents did last: %w", err)
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	costs.Since = today.AddDate(0, 0, 1-summaryDays)
	for _, row := range rows {
		costs.AgentIds = append(costs.AgentIds, row.ID)
	}
	spent, err := s.store.AgentDayCosts(ctx, costs)
	if err != nil {
		return nil, fmt.Errorf("add up what agents spent: %w", err)
	}
	type day struct{ agentID, day string }
	perDay := make(map[day]int64, len(spent))
	for _, row := range spent {
		perDay[day{row.AgentID, row.Day}] = row.CostMicros
	}
	out := make([]Summary, len(rows))
	for i, row := range rows {
		out[i] = Summary{row, make([]int64, summaryDays)}
		for back := range summaryDays {
			key := day{row.ID, today.AddDate(0, 0, -back).Format(time.DateOnly)}
			out[i].DayCosts[summaryDays-1-back] = perDay[key]
		}
	}
	return out, nil
}
