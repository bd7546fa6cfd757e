package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/estimate"
)

// Asked selects a period.
type Asked struct {
	OrgID        string
	Since, Until time.Time
	// AgentID is empty for all, and User for everybody's tasks.
	AgentID, User string
}

// Row is an agent or a week.
type Row struct {
	estimate.Row
	Interventions int64
}

// Slow is a tool by the time that its calls took.
type Slow struct {
	estimate.Row
	Total time.Duration
}

// Denied is a kind of call that was denied.
type Denied struct {
	Row db.DeniedCallsRow
	// Rule is a policy rule for it; empty where none is advised.
	Rule string
}

// Report is how agents and tools did.
type Report struct {
	Agents, Weeks []Row
	Slow          []Slow
	Denied        []Denied
}

// maxRows bounds the lists of tools and denied calls, and ruleFrom is how often a kind of call
// must be denied before a rule is advised.
const (
	maxRows  = 20
	ruleFrom = 3
)

// Report adds up a period.
func (s *Service) Report(ctx context.Context, a Asked) (r Report, err error) {
	agent, user := optional(a.AgentID), optional(a.User)
	rows := func(by string) (out []Row, err error) {
		figures, err := s.cfg.History.Statistics(ctx, estimate.Asked{OrgID: a.OrgID, By: by, Since: a.Since, Until: a.Until, AgentID: a.AgentID, User: a.User})
		if err != nil {
			return nil, err
		}
		counts, err := s.cfg.Store.Interventions(ctx, db.InterventionsParams{By: by, OrgID: a.OrgID, Since: a.Since, Until: a.Until, AgentID: agent, UserName: user})
		if err != nil {
			return nil, fmt.Errorf("count interventions: %w", err)
		}
		for _, f := range figures {
			row := Row{Row: f}
			for _, c := range counts {
				if c.Key == f.Key {
					row.Interventions = c.Interventions
				}
			}
			out = append(out, row)
		}
		return out, nil
	}
	if r.Agents, err = rows("agent"); err != nil {
		return r, err
	}
	if r.Weeks, err = rows("week"); err != nil {
		return r, err
	}
	slices.SortFunc(r.Weeks, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	tools, err := s.cfg.History.Statistics(ctx, estimate.Asked{OrgID: a.OrgID, By: "tool", Since: a.Since, Until: a.Until, AgentID: a.AgentID, User: a.User})
	if err != nil {
		return r, err
	}
	for _, t := range tools {
		r.Slow = append(r.Slow, Slow{t, t.Mean * time.Duration(t.Calls)})
	}
	slices.SortStableFunc(r.Slow, func(a, b Slow) int { return cmp.Compare(b.Total, a.Total) })
	r.Slow = r.Slow[:min(len(r.Slow), maxRows)]
	denied, err := s.cfg.Store.DeniedCalls(ctx, db.DeniedCallsParams{OrgID: a.OrgID, Since: a.Since, Until: a.Until, AgentID: agent, UserName: user, MaxRows: maxRows})
	if err != nil {
		return r, fmt.Errorf("find denied calls: %w", err)
	}
	for _, row := range denied {
		d := Denied{Row: row}
		if row.Calls >= ruleFrom && row.AgentName != "" {
			d.Rule = "rules:\n" + RuleFor(row.AgentName, row.Tool)
		}
		r.Denied = append(r.Denied, d)
	}
	return r, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Markdown writes a report as a document.
func (r Report) Markdown(a Asked) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Insights, %s to %s\n\n", a.Since.UTC().Format(time.DateOnly), a.Until.UTC().Format(time.DateOnly))
	if a.User != "" {
		fmt.Fprintf(&out, "Tasks of %s only.\n\n", cell(a.User))
	}
	table := func(title, first string, rows []Row) {
		fmt.Fprintf(&out, "## %s\n\n", title)
		if len(rows) == 0 {
			out.WriteString("No tasks.\n\n")
			return
		}
		fmt.Fprintf(&out, "| %s | tasks | success | first time | iterations | cost | interventions | denied calls |\n|---|---|---|---|---|---|---|---|\n", first)
		for _, row := range rows {
			ended := row.Tasks - row.Live
			fmt.Fprintf(&out, "| %s | %d | %s | %s | %.1f | $%.2f | %d | %d |\n", cell(row.Key), row.Tasks, share(row.Succeeded, ended), share(row.FirstTime, ended),
				row.Iterations, float64(row.CostMicros)/1e6, row.Interventions, row.Denied)
		}
		out.WriteString("\n")
	}
	table("Agents", "agent", r.Agents)
	table("Weeks", "week", r.Weeks)
	out.WriteString("## Tools by time\n\n")
	if len(r.Slow) == 0 {
		out.WriteString("No calls.\n")
	} else {
		out.WriteString("| tool | calls | failed | median | 90 % | all together |\n|---|---|---|---|---|---|\n")
	}
	for _, t := range r.Slow {
		p50, p90 := "", ""
		if t.Took != nil {
			p50, p90 = t.Took.Middle.Round(time.Millisecond).String(), t.Took.High.Round(time.Millisecond).String()
		}
		fmt.Fprintf(&out, "| %s | %d | %d | %s | %s | %s |\n", cell(t.Key), t.Calls, t.CallsFailed, p50, p90, t.Total.Round(time.Second))
	}
	out.WriteString("\n## Denied calls\n\n")
	if len(r.Denied) == 0 {
		out.WriteString("No call was denied.\n")
	} else {
		out.WriteString("| agent | tool | calls | tasks | reason | newest task |\n|---|---|---|---|---|---|\n")
	}
	for _, d := range r.Denied {
		fmt.Fprintf(&out, "| %s | %s | %d | %d | %s | %s |\n", cell(d.Row.AgentName), cell(d.Row.Tool), d.Row.Calls, d.Row.Tasks, cell(d.Row.Reason), d.Row.TaskID)
	}
	return out.String()
}

func share(n, of int64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
}

// cell writes a text into a table: on one line, with nothing that Markdown would read.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "[", `\[`, "`", "\\`", "*", `\*`, "_", `\_`).Replace(text)
}

// Strategy is a way to run a task, with how it went.
type Strategy struct {
	Row db.StrategyHistoryRow
	// Expected success: the mean of the Beta posterior with Jeffreys' prior.
	Expected float64
}

const (
	historyDays   = 180
	maxStrategies = 10
)

// Recommend returns the ways in which tasks of a type were run that v sees, the best first: by
// expected success, and by cost where that is alike.
func (s *Service) Recommend(ctx context.Context, v visibility.Viewer, agentID, taskType string) (out []Strategy, basis string, err error) {
	rows, err := s.cfg.Store.StrategyHistory(ctx, db.StrategyHistoryParams{
		OrgID: v.OrgID, AgentID: optional(agentID), TaskType: optional(taskType), SeesAll: v.All, Viewer: v.Name, Since: time.Now().AddDate(0, 0, -historyDays),
	})
	if err != nil {
		return nil, "", fmt.Errorf("read earlier runs: %w", err)
	}
	for _, row := range rows {
		out = append(out, Strategy{row, (float64(row.Succeeded) + 0.5) / (float64(row.Tasks) + 1)})
	}
	// Within five points of a hundred the cheaper one is first.
	slices.SortStableFunc(out, func(a, b Strategy) int {
		return cmp.Or(cmp.Compare(int(b.Expected*20), int(a.Expected*20)), cmp.Compare(a.Row.CostP50, b.Row.CostP50), cmp.Compare(b.Row.Tasks, a.Row.Tasks))
	})
	out = out[:min(len(out), maxStrategies)]
	if len(out) == 0 {
		return nil, "no history: no run of this kind has ended in the last 180 days", nil
	}
	best := out[0]
	return out, fmt.Sprintf("%d of %d runs of %s with %s succeeded, at a median cost of $%.4f",
		best.Row.Succeeded, best.Row.Tasks, best.Row.AgentName, cmp.Or(best.Row.Model, best.Row.Provider), best.Row.CostP50/1e6), nil
}
