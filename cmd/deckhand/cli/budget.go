package cli

import (
	"math"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) budgetCommand() *cobra.Command {
	cmd := group("budget", "Limit what models may cost", `
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
	cmd.AddCommand(a.budgetShowCommand(), a.budgetSetCommand(), a.budgetReportCommand())
	return cmd
}

// budgetOf reads the words that name a budget, and answers those that are left.
func budgetOf(cmd *cobra.Command, args []string) (scope, object string, rest []string, err error) {
	scope, rest = args[0], args[1:]
	switch scope {
	case "organisation":
		return scope, "", rest, nil
	case "user", "task", "lineage":
		if len(rest) == 0 {
			return "", "", nil, usage(cmd, "name the %s", scope)
		}
		return scope, rest[0], rest[1:], nil
	}
	return "", "", nil, usage(cmd, "there is no budget of %q: use organisation, user NAME, task ID or lineage ID", scope)
}

func (a *app) budgetShowCommand() *cobra.Command {
	var every string
	cmd := &cobra.Command{
		Use: "show [SCOPE [NAME]]", Short: "Show budgets, and what of them is spent",
		Example: `deckhand budget show
deckhand budget show user ann --every month
deckhand budget show task task_3q9`,
		Args: takes("[SCOPE]", "[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.GetBudgetRequest{Every: every}
			if len(args) > 0 {
				var err error
				if request.Scope, request.ObjectId, _, err = budgetOf(cmd, args); err != nil {
					return err
				}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				budgets, err := sdk.All(cmd.Context(), client.Budgets.ListBudgets, func(token string) *deckhandv1.ListBudgetsRequest {
					return &deckhandv1.ListBudgetsRequest{PageToken: token}
				}, (*deckhandv1.ListBudgetsResponse).GetBudgets)
				if err != nil {
					return err
				}
				return output.List(a.printer(), budgetNoun(), budgets)
			}
			res, err := client.Budgets.GetBudget(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), budgetNoun(), res.Msg.GetBudget())
		},
	}
	cmd.Flags().StringVar(&every, "every", "", "day or month, for users and the organisation")
	return cmd
}

func (a *app) budgetSetCommand() *cobra.Command {
	var every string
	cmd := &cobra.Command{
		Use: "set SCOPE [NAME] USD|none|default", Short: "Set a budget in US dollars",
		Long: `Holds from the next call on; a task that paused for want of budget goes on with
deckhand task resume. "none" is no limit, "default" what holds where nobody has
set one: 50 a day and 500 a month for the organisation, and the persona's limit
for a task and its lineage.`,
		Example: `deckhand budget set organisation 20 --every day
deckhand budget set user ann 100 --every month
deckhand budget set task task_3q9 15
deckhand budget set organisation default --every day`,
		Args: takes("SCOPE", "[NAME]", "[USD]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, object, rest, err := budgetOf(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) != 1 {
				return usage(cmd, "give one limit: US dollars, none or default")
			}
			request := &deckhandv1.SetBudgetRequest{Scope: scope, ObjectId: object, Every: every}
			switch rest[0] {
			case "none":
				request.Limit = &deckhandv1.SetBudgetRequest_Unlimited{Unlimited: true}
			case "default":
				request.Limit = &deckhandv1.SetBudgetRequest_Reset_{Reset_: true}
			default:
				dollars, err := strconv.ParseFloat(strings.TrimPrefix(rest[0], "$"), 64)
				if err != nil || dollars < 0 || dollars > 1e9 || math.IsNaN(dollars) {
					return usage(cmd, "%q is no limit: give US dollars, none or default", rest[0])
				}
				request.Limit = &deckhandv1.SetBudgetRequest_LimitMicros{LimitMicros: int64(math.Round(dollars * 1e6))}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Budgets.SetBudget(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), budgetNoun(), res.Msg.GetBudget())
		},
	}
	cmd.Flags().StringVar(&every, "every", "", "day or month, for users and the organisation")
	return cmd
}

func budgetNoun() output.Noun[*deckhandv1.Budget] {
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
				return usd(x.GetLimitMicros())
			}},
			{Header: "spent", Value: func(x *deckhandv1.Budget) string { return usd(x.GetSpentMicros()) }},
			{Header: "reserved", Value: func(x *deckhandv1.Budget) string { return usd(x.GetReservedMicros()) }},
			{Header: "set by", Value: (*deckhandv1.Budget).GetSetBy},
		},
	}
}

func (a *app) budgetReportCommand() *cobra.Command {
	var since, until string
	request := &deckhandv1.GetUsageReportRequest{}
	cmd := &cobra.Command{
		Use: "report", Short: "Show what models cost, by agent, user, model, task, day or month, and what the month will cost",
		Long: `Adds up what calls of models cost: this month, or in another time. What the month
is going to cost goes on from the last seven days. Who is no administrator sees
their own tasks only. Days and months are those of UTC.`,
		Example: `deckhand budget report
deckhand budget report --by day --since 2026-01-01 -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, one := range []struct {
				flag, text string
				into       **timestamppb.Timestamp
			}{{"--since", since, &request.Since}, {"--until", until, &request.Until}} {
				if one.text == "" {
					continue
				}
				at, err := time.Parse(time.DateOnly, one.text)
				if err != nil {
					return usage(cmd, "%s is %q, give a day such as 2026-01-31", one.flag, one.text)
				}
				*one.into = timestamppb.New(at)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Budgets.GetUsageReport(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			f := res.Msg.GetForecast()
			a.notef("%s: %s so far, %s a day, about %s at its end", f.GetMonth(), usd(f.GetSpentMicros()), usd(f.GetDailyMicros()), usd(f.GetMonthMicros()))
			if at := f.GetReachedAt(); at != nil {
				a.notef("the month's budget of %s is reached %s", usd(f.GetLimitMicros()), moment(at))
			}
			return output.List(a.printer(), usageRowNoun(request.GetBy()), append(res.Msg.GetRows(), total(res.Msg)...))
		},
	}
	cmd.Flags().StringVar(&request.By, "by", "agent", "agent, user, model, task, day or month")
	cmd.Flags().StringVar(&since, "since", "", "from this day on, in UTC; the month's first by default")
	cmd.Flags().StringVar(&until, "until", "", "up to the beginning of this day, in UTC; now by default")
	return cmd
}

// total is the last row, where there are several.
func total(r *deckhandv1.GetUsageReportResponse) []*deckhandv1.UsageRow {
	if len(r.GetRows()) < 2 {
		return nil
	}
	r.Total.Key = "total"
	return []*deckhandv1.UsageRow{r.GetTotal()}
}

func usageRowNoun(by string) output.Noun[*deckhandv1.UsageRow] {
	figure := func(header string, of func(*deckhandv1.UsageRow) int64) output.Column[*deckhandv1.UsageRow] {
		return output.Column[*deckhandv1.UsageRow]{Header: header, Value: func(x *deckhandv1.UsageRow) string { return strconv.FormatInt(of(x), 10) }}
	}
	return output.Noun[*deckhandv1.UsageRow]{
		Name: (*deckhandv1.UsageRow).GetKey,
		Columns: []output.Column[*deckhandv1.UsageRow]{
			{Header: by, Value: (*deckhandv1.UsageRow).GetKey},
			figure("tasks", (*deckhandv1.UsageRow).GetTasks),
			figure("calls", (*deckhandv1.UsageRow).GetCalls),
			figure("input", func(x *deckhandv1.UsageRow) int64 { return x.GetUsage().GetInputTokens() }),
			figure("output", func(x *deckhandv1.UsageRow) int64 { return x.GetUsage().GetOutputTokens() }),
			{Header: "cost", Value: func(x *deckhandv1.UsageRow) string { return usd(x.GetUsage().GetCostMicros()) }},
		},
	}
}
