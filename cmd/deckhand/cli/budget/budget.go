// Package budget is the command "deckhand budget": it sets what may be spent,
// and reports what was.
package budget

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand budget".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("budget", "Set budgets for models and show spending", `
Before a model is called, the most that the call can cost is reserved in every
budget that it draws on: of the task and the tasks above it, of its lineage, of
who submitted it, and of the organisation, by day and by month. A call that does
not fit is not made, and its task pauses.
`, `
deckhand budget show
deckhand budget set organisation 20 --every day
deckhand budget set task task_3q9 15
deckhand budget report --by agent
`)
	cmd.AddCommand(showCommand(e), setCommand(e), reportCommand(e))
	return cmd
}

// scopeOf reads the words that name a budget, and returns the remaining ones.
func scopeOf(cmd *cobra.Command, args []string) (scope, object string, rest []string, err error) {
	scope, rest = args[0], args[1:]
	switch scope {
	case "organisation":
		return scope, "", rest, nil
	case "user", "task", "lineage":
		if len(rest) == 0 {
			return "", "", nil, env.Usage(cmd, "name the %s", scope)
		}
		return scope, rest[0], rest[1:], nil
	}
	return "", "", nil, env.Usage(cmd, "there is no budget of %q: use organisation, user NAME, task ID or lineage ID", scope)
}

func noun() output.Noun[*deckhandv1.Budget] {
	return output.Noun[*deckhandv1.Budget]{
		Name: func(x *deckhandv1.Budget) string { return strings.TrimSpace(x.GetScope() + " " + x.GetObjectId()) },
		Columns: []output.Column[*deckhandv1.Budget]{
			{Header: "of", Value: (*deckhandv1.Budget).GetScope},
			{Header: "name", Value: func(x *deckhandv1.Budget) string {
				if x.GetScope() == "organisation" {
					return "-"
				}
				return x.GetObjectId()
			}},
			{Header: "every", Value: (*deckhandv1.Budget).GetEvery},
			{Header: "limit", Value: func(x *deckhandv1.Budget) string {
				if x.LimitMicros == nil {
					return "none"
				}
				return output.USD(x.GetLimitMicros())
			}},
			{Header: "spent", Value: func(x *deckhandv1.Budget) string { return output.USD(x.GetSpentMicros()) }},
			{Header: "reserved", Value: func(x *deckhandv1.Budget) string { return output.USD(x.GetReservedMicros()) }},
			{Header: "set by", Value: (*deckhandv1.Budget).GetSetBy},
		},
	}
}
