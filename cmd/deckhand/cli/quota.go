package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) quotaCommand() *cobra.Command {
	cmd := group("quota", "Say what the organisation may have", `
A plan says how many runs a month may begin, how long each may work, and which
categories of tools it may use. A task that finds no run left waits in the queue
for the next month, or for another plan. Besides, an administrator says which
models may be called, and how many calls a minute a provider gets.

Where nobody has set one the plan is self-hosted, which limits nothing.
`, `
deckhand quota show
deckhand quota set starter
deckhand quota models "anthropic/*" openai/gpt-5
deckhand quota calls anthropic 60
`)
	cmd.AddCommand(a.quotaShowCommand(), a.quotaSetCommand(), a.quotaModelsCommand(), a.quotaCallsCommand())
	return cmd
}

func (a *app) quotaShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the plan, and what of it is used", Example: "deckhand quota show", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Plans.GetPlan(cmd.Context(), connect.NewRequest(&deckhandv1.GetPlanRequest{}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), quotaNoun(), res.Msg.GetPlan())
		},
	}
}

func (a *app) quotaSetCommand() *cobra.Command {
	var runs int64
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Put the organisation on a plan",
		Long: `The plans, for a month each:

  free          50 runs of 5 minutes, safe tools
  starter       500 runs of 10 minutes, safe and moderate tools
  professional  2 500 runs of 15 minutes, dangerous tools too, which ask
  enterprise    any number of runs of 30 minutes, or as many as --runs says; what
                is left of those is added to the next month's
  self-hosted   no limit

It holds from the next run on.`,
		Example: "deckhand quota set starter\ndeckhand quota set enterprise --runs 10000\ndeckhand quota set self-hosted", Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.SetPlanRequest{Name: args[0]}
			if cmd.Flags().Changed("runs") {
				request.Runs = &runs
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Plans.SetPlan(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), quotaNoun(), res.Msg.GetPlan())
		},
	}
	cmd.Flags().Int64Var(&runs, "runs", 0, "runs a month (enterprise only)")
	return cmd
}

func (a *app) quotaModelsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "models (PROVIDER/MODEL... | --all)", Short: "Say which models may be called",
		Long: `* stands for any letters. A task whose agent runs with another model waits, and
one that is submitted with it is refused. Calls under way are not cut off.`,
		Example: "deckhand quota models \"anthropic/*\" openai/gpt-5\ndeckhand quota models --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage(cmd, "name the models that may be called, or say --all")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Plans.SetAllowedModels(cmd.Context(), connect.NewRequest(&deckhandv1.SetAllowedModelsRequest{Models: args}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), quotaNoun(), res.Msg.GetPlan())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every model")
	return cmd
}

func (a *app) quotaCallsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "calls PROVIDER N|none", Short: "Say how many calls a minute a provider gets",
		Long: `A call that comes too early waits for its turn, and for 20 seconds at most; then
its task tries again later. A tenth of a minute's calls may come together.`,
		Example: "deckhand quota calls anthropic 60\ndeckhand quota calls anthropic none", Args: takes("PROVIDER", "N"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.SetCallRateRequest{Provider: args[0]}
			if args[1] != "none" {
				n, err := strconv.ParseInt(args[1], 10, 32)
				if err != nil || n < 1 {
					return usage(cmd, "%q is no number of calls: give one of 1 or more, or none", args[1])
				}
				request.CallsPerMinute = int32(n)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Plans.SetCallRate(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), quotaNoun(), res.Msg.GetPlan())
		},
	}
}

func quotaNoun() output.Noun[*deckhandv1.Plan] {
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
