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
in the queue for the next month, or for another plan. An administrator can also set
which models may be called, and how many calls a minute a provider gets.

The default plan is self-hosted, which limits nothing.
`, `
deckhand quota show
deckhand quota set starter
deckhand quota models "anthropic/*" openai/gpt-5
deckhand quota calls anthropic 60
`)
	cmd.AddCommand(showCommand(e), setCommand(e), modelsCommand(e), callsCommand(e))
	return cmd
}

func noun() output.Noun[*deckhandv1.Plan] {
	return output.Noun[*deckhandv1.Plan]{
		Name: (*deckhandv1.Plan).GetName,
		Columns: []output.Column[*deckhandv1.Plan]{
			{Header: "plan", Value: (*deckhandv1.Plan).GetName},
			{Header: "month", Value: (*deckhandv1.Plan).GetPeriod},
			{Header: "runs", Value: func(x *deckhandv1.Plan) string {
				if x.Runs == nil {
					return fmt.Sprintf("%d", x.GetUsed())
				}
				return fmt.Sprintf("%d of %d", x.GetUsed(), x.GetRuns()+x.GetCarried())
			}},
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
