// Package quota is the command "deckhand quota": it manages the subscription
// plan and the rate of model calls.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand quota".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("quota", "Show and set the organisation's quota", `
A subscription plan limits how many runs may start in a month, how long each may
work, and which categories of tools it may use. A task that finds no run left waits
in the queue for the next month, or for another plan; with quota set --hard-block its
submission is refused. An administrator can also set what the organisation and its users may
use in a billing period, which models may be called, and how many calls a minute a provider
gets.

The default plan is self-hosted, which limits nothing.
`, `
deckhand quota show
deckhand quota set starter
deckhand quota limit --each-user --runs 100
deckhand quota history
deckhand quota models "anthropic/*" openai/gpt-5
deckhand quota calls anthropic 60
`)
	cmd.AddCommand(showCommand(e), setCommand(e), limitCommand(e), historyCommand(e), modelsCommand(e), callsCommand(e))
	return cmd
}

func noun() output.Noun[*deckhandv1.Plan] {
	return output.Noun[*deckhandv1.Plan]{
		Name: (*deckhandv1.Plan).GetName,
		Columns: []output.Column[*deckhandv1.Plan]{
			{Header: "plan", Value: (*deckhandv1.Plan).GetName},
			{Header: "period", Value: (*deckhandv1.Plan).GetPeriod},
			{Header: "runs", Value: func(x *deckhandv1.Plan) string {
				if x.Runs == nil {
					return fmt.Sprintf("%d", x.GetUsed())
				}
				return fmt.Sprintf("%d of %d", x.GetUsed(), x.GetRuns()+x.GetCarried())
			}},
			{Header: "quotas", Value: func(x *deckhandv1.Plan) string {
				var out []string
				for _, q := range x.GetQuotas() {
					whose := ""
					if q.GetScope() == "user" {
						whose = " of yours"
					}
					out = append(out, fmt.Sprintf("%d of %d %s%s", q.GetUsed()+q.GetReserved(), q.GetLimit(), strings.ReplaceAll(q.GetMetric(), "_", " "), whose))
				}
				if len(out) == 0 {
					return "none"
				}
				return strings.Join(out, ", ")
			}},
			{Header: "resets", Alone: true, Value: func(x *deckhandv1.Plan) string {
				return fmt.Sprintf("%s, on day %d of each month", output.Moment(x.GetResetsAt()), x.GetCycleDay())
			}},
			{Header: "when used up", Alone: true, Value: func(x *deckhandv1.Plan) string {
				if x.GetHardBlock() {
					return "submissions are refused"
				}
				return "tasks wait in the queue"
			}},
			{Header: "limits", Alone: true, Value: limits},
			{Header: "larger plans", Alone: true, Value: (*deckhandv1.Plan).GetUpgradeUrl},
			{Header: "time of a run", Value: func(x *deckhandv1.Plan) string {
				if x.GetActiveTime() == nil {
					return "as its persona says"
				}
				return x.GetActiveTime().AsDuration().String()
			}},
			{Header: "tools", Value: (*deckhandv1.Plan).GetTools},
			{Header: "models", Value: func(x *deckhandv1.Plan) string {
				if len(x.GetModels()) == 0 {
					return "all"
				}
				return strings.Join(x.GetModels(), ", ")
			}},
			{Header: "calls a minute", Value: func(x *deckhandv1.Plan) string {
				var out []string
				for _, name := range slices.Sorted(maps.Keys(x.GetCallsPerMinute())) {
					out = append(out, fmt.Sprintf("%s %d", name, x.GetCallsPerMinute()[name]))
				}
				if len(out) == 0 {
					return "any"
				}
				return strings.Join(out, ", ")
			}},
		},
	}
}

// limits lists all quotas that are set, for administrators.
func limits(x *deckhandv1.Plan) string {
	var out []string
	for _, l := range x.GetLimits() {
		whose := l.GetUserName()
		switch whose {
		case "":
			whose = "organisation"
		case "*":
			whose = "each user"
		}
		var parts []string
		for _, one := range []struct {
			name string
			n    *int64
		}{{"runs", l.Runs}, {"iterations", l.Iterations}, {"tokens", l.Tokens}, {"tool calls", l.ToolCalls}} { //nolint:protogetter // unset is not 0
			if one.n != nil {
				parts = append(parts, fmt.Sprintf("%d %s", *one.n, one.name))
			}
		}
		out = append(out, whose+": "+strings.Join(parts, ", "))
	}
	return strings.Join(out, "; ")
}
