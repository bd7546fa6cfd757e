// Package estimate computes statistics of past runs: what the next run is likely to take,
// and how runs ended. History computes them. It only reads; if the database fails, it
// returns the error.
package estimate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

const (
	// Enough is how many runs there must be for an estimate, and sample of how
	// many of the last it is made.
	Enough = 5
	sample = 100
	// knownFor is how long the runs of an agent are taken for good.
	knownFor = 10 * time.Second
	known    = 1024
	// maxRows bounds statistics.
	maxRows = 1000
)

// History reads it.
type History struct {
	store *store.Store
	// runs are by organisation and agent.
	runs *ttlcache.Cache[string, []db.RunsOfAgentRow]
	now  func() time.Time
}

// New creates a History.
func New(s *store.Store) *History {
	return &History{store: s, runs: ttlcache.New[string, []db.RunsOfAgentRow](known, knownFor), now: time.Now}
}

// Range is the middle of many figures, and their 90th percentile.
type Range[T ~int64] struct{ Middle, High T }

// Estimate is what runs took.
type Estimate struct {
	// Runs is the number of runs that the estimate is based on; 0 for no history.
	Runs int32
	// Basis describes which runs.
	Basis string
	// Of a whole run. Cost is in micro-dollars.
	Duration Range[time.Duration]
	Cost     Range[int64]
	// Iteration is how far the run is that it is for.
	Iteration int32
}

// NoHistory is the basis of an estimate that cannot be made.
const NoHistory = "no history"

// Before returns the estimate for a run of an agent that has not begun.
func (h *History) Before(ctx context.Context, orgID, agentID string) (Estimate, error) {
	rows, err := h.past(ctx, orgID, agentID)
	if err != nil {
		return Estimate{}, err
	}
	return estimate(rows, far{}), nil
}

// Of estimates a task's whole run, by how far it is.
func (h *History) Of(ctx context.Context, t db.Task) (Estimate, error) {
	rows, err := h.past(ctx, t.OrgID, t.AgentID)
	if err != nil {
		return Estimate{}, err
	}
	at := far{iteration: t.Iteration - t.ResumedAt, cost: t.CostMicros}
	if t.StartedAt != nil {
		until := h.now()
		if t.FinishedAt != nil {
			until = *t.FinishedAt
		}
		at.seconds = max(until.Sub(*t.StartedAt).Seconds(), 0)
	}
	return estimate(rows, at), nil
}

func (h *History) past(ctx context.Context, orgID, agentID string) ([]db.RunsOfAgentRow, error) {
	key := orgID + "/" + agentID
	if rows, ok := h.runs.Get(key); ok {
		return rows, nil
	}
	rows, err := h.store.RunsOfAgent(ctx, db.RunsOfAgentParams{OrgID: orgID, AgentID: agentID, Sample: sample})
	if err != nil {
		return nil, fmt.Errorf("read the runs of agent %s: %w", agentID, err)
	}
	if len(rows) >= Enough { // otherwise the next run may make an estimate possible
		h.runs.Add(key, rows)
	}
	return rows, nil
}

// far is how far a run is.
type far struct {
	iteration int32
	seconds   float64
	cost      int64
}

// estimate uses the runs that took at least as many iterations. What this run has used so
// far is certain; for each iteration that they had more, it is assumed to take as long
// and cost as much as one of its own so far.
func estimate(rows []db.RunsOfAgentRow, at far) Estimate {
	var seconds, costs []float64
	for _, r := range rows {
		if at.iteration <= 0 {
			seconds, costs = append(seconds, max(r.Seconds, at.seconds)), append(costs, max(float64(r.CostMicros), float64(at.cost)))
			continue
		}
		if more := float64(r.Iteration-at.iteration) / float64(at.iteration); more >= 0 {
			seconds, costs = append(seconds, at.seconds*(1+more)), append(costs, float64(at.cost)*(1+more))
		}
	}
	e := Estimate{Basis: NoHistory, Iteration: max(at.iteration, 0)}
	switch {
	case len(rows) < Enough:
		return e
	case len(seconds) < Enough:
		e.Basis = fmt.Sprintf("it goes on for longer than all but %d of the last %d runs of the agent", len(seconds), len(rows))
		return e
	case at.iteration > 0:
		e.Basis = fmt.Sprintf("%d of the last %d runs of the agent, which had as many iterations", len(seconds), len(rows))
	default:
		e.Basis = fmt.Sprintf("the last %d runs of the agent", len(rows))
	}
	e.Runs = int32(len(seconds)) //nolint:gosec // at most the sample
	slices.Sort(seconds)
	slices.Sort(costs)
	span := func(p float64) time.Duration { return time.Duration(percentile(seconds, p) * float64(time.Second)) }
	e.Duration = Range[time.Duration]{span(middle).Round(time.Millisecond), span(high).Round(time.Millisecond)}
	e.Cost = Range[int64]{int64(math.Round(percentile(costs, middle))), int64(math.Round(percentile(costs, high)))}
	return e
}

const middle, high = 0.5, 0.9

// percentile returns a percentile of sorted figures, interpolated between two of them, as
// PostgreSQL's percentile_cont does.
func percentile(sorted []float64, p float64) float64 {
	place := p * float64(len(sorted)-1)
	low := int(place)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (place-float64(low))*(sorted[low+1]-sorted[low])
}

// Asked selects what statistics are computed of.
type Asked struct {
	OrgID string
	// By is agent, version, task_type, tool, outcome, day, week or month.
	By           string
	Since, Until time.Time
	// AgentID is empty for all, and User for everybody's.
	AgentID, User string
	// Version of the agent; 0 for all. TaskType is empty for all.
	Version  int32
	TaskType string
}

// Row adds up what has one key.
type Row struct {
	Key                                                 string
	Tasks, Succeeded, Failed, TimedOut, Cancelled, Live int64
	// Of a tool.
	Calls, CallsFailed int64
	// Of tasks. Cost is in micro-dollars.
	InputTokens, OutputTokens, CacheReadTokens, CacheWriteTokens, CostMicros int64
	// Took is nil where none has ended.
	Took *Range[time.Duration]
	// Mean is of the same as Took.
	Mean time.Duration
	// FirstTime counts tasks that succeeded without a retry and are none themselves.
	FirstTime, Retries, Denied int64
	// Iterations is the mean of the tasks that began and ended.
	Iterations float64
	// Phases are the times that the tasks spent in each phase, all together; known of Timed
	// tasks. Nil for tools.
	Phases []time.Duration
	Timed  int64
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func span(seconds float64) time.Duration {
	return time.Duration(max(seconds, 0) * float64(time.Second))
}

func millis(list []int64) []time.Duration {
	out := make([]time.Duration, len(list))
	for i, ms := range list {
		out[i] = time.Duration(ms) * time.Millisecond
	}
	return out
}

func took(seconds []float64) *Range[time.Duration] {
	if len(seconds) != 2 { // the middle one and the high one
		return nil
	}
	return &Range[time.Duration]{span(seconds[0]), span(seconds[1])}
}

// Statistics adds up tasks, or the calls of tools.
func (h *History) Statistics(ctx context.Context, a Asked) ([]Row, error) {
	var out []Row
	var version *int32
	if a.Version != 0 {
		version = &a.Version
	}
	if a.By == "tool" {
		rows, err := h.store.ToolStatistics(ctx, db.ToolStatisticsParams{
			OrgID: a.OrgID, Since: a.Since, Until: a.Until, AgentID: optional(a.AgentID), UserName: optional(a.User), MaxRows: maxRows,
			AgentVersion: version, TaskType: optional(a.TaskType),
		})
		if err != nil {
			return nil, fmt.Errorf("add up calls of tools: %w", err)
		}
		for _, r := range rows {
			out = append(out, Row{Key: r.Key, Tasks: r.Tasks, Calls: r.Calls, CallsFailed: r.CallsFailed, Took: took(r.Seconds), Mean: span(r.MeanSeconds), Denied: r.Denied, Retries: r.Retries})
		}
		return out, nil
	}
	rows, err := h.store.TaskStatistics(ctx, db.TaskStatisticsParams{
		By: a.By, OrgID: a.OrgID, Since: a.Since, Until: a.Until, AgentID: optional(a.AgentID), UserName: optional(a.User), MaxRows: maxRows,
		AgentVersion: version, TaskType: optional(a.TaskType),
	})
	if err != nil {
		return nil, fmt.Errorf("add up tasks: %w", err)
	}
	for _, r := range rows {
		out = append(out, Row{
			Key: r.Key, Tasks: r.Tasks, Succeeded: r.Succeeded, Failed: r.Failed, TimedOut: r.TimedOut, Cancelled: r.Cancelled, Live: r.Live,
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CacheReadTokens: r.CacheReadTokens, CacheWriteTokens: r.CacheWriteTokens,
			CostMicros: r.CostMicros, Took: took(r.Seconds), Mean: span(r.MeanSeconds), FirstTime: r.FirstTime, Retries: r.Retries, Denied: r.Denied,
			Iterations: r.Iterations, Timed: r.Timed, Phases: millis(r.Phases),
		})
	}
	return out, nil
}
