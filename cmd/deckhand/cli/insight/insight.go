// Package insight is the command "deckhand insight": how agents and tools do over time, and
// what to run next.
package insight

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand insight".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("insight", "See how agents and tools do, and what to run next", `
A report adds up the tasks of a period: success, first-time success, iterations, cost and
interventions by agent and week, the tools that take most time, and the calls that were
denied. Users who are not administrators see their own tasks only.
`, `
deckhand insight report
deckhand insight report --markdown > /tmp/insights.md
deckhand insight recommend "migrate the orders table"
`)
	cmd.AddCommand(reportCommand(e), recommendCommand(e))
	return cmd
}

type row = *deckhandv1.InsightRow

func rows(first string) output.Noun[row] {
	share := func(n, of int64) string {
		if of == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
	}
	ended := func(r row) int64 { return r.GetFigures().GetTasks() - r.GetFigures().GetLive() }
	return output.Noun[row]{
		Name: func(r row) string { return r.GetFigures().GetKey() },
		Columns: []output.Column[row]{
			{Header: first, Value: func(r row) string { return r.GetFigures().GetKey() }},
			{Header: "tasks", Value: func(r row) string { return fmt.Sprint(r.GetFigures().GetTasks()) }},
			{Header: "success", Value: func(r row) string { return share(r.GetFigures().GetSucceeded(), ended(r)) }},
			{Header: "first time", Value: func(r row) string { return share(r.GetFigures().GetFirstTime(), ended(r)) }},
			{Header: "iterations", Value: func(r row) string { return fmt.Sprintf("%.1f", r.GetFigures().GetMeanIterations()) }},
			{Header: "cost", Value: func(r row) string { return output.USD(r.GetFigures().GetUsage().GetCostMicros()) }},
			{Header: "interventions", Value: func(r row) string { return fmt.Sprint(r.GetInterventions()) }},
			{Header: "denied calls", Value: func(r row) string { return fmt.Sprint(r.GetFigures().GetDenied()) }},
		},
	}
}

func reportCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.GetInsightsRequest{}
	var since, until string
	var markdown, weeks bool
	cmd := &cobra.Command{
		Use: "report", Short: "Report on a period by agent or week",
		Example: "deckhand insight report\ndeckhand insight report --weeks --agent log-triage\ndeckhand insight report --markdown > /tmp/insights.md", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if req.Since, err = env.Day(cmd, "--since", since); err != nil {
				return err
			}
			if req.Until, err = env.Day(cmd, "--until", until); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Insights.GetInsights(cmd.Context(), req)
			if err != nil {
				return err
			}
			if markdown {
				_, err := io.WriteString(e.Printer().Out, termsafe.Text(res.GetMarkdown()))
				return err
			}
			if !e.Format.ForPeople() {
				return output.One(e.Printer(), output.Noun[*deckhandv1.GetInsightsResponse]{}, res)
			}
			if who := res.GetUserName(); who != "" {
				e.Notef("of the tasks of %s", termsafe.Line(who))
			}
			if weeks {
				return output.List(e.Printer(), rows("week"), res.GetWeeks())
			}
			if err := output.List(e.Printer(), rows("agent"), res.GetAgents()); err != nil {
				return err
			}
			for _, d := range res.GetDenied() {
				if d.GetRuleYaml() != "" {
					e.Notef("%s was denied to %s %d times; to ask a person instead, add to the policy:\n%s", termsafe.Line(d.GetTool()), termsafe.Line(d.GetAgentName()), d.GetCalls(), termsafe.Text(d.GetRuleYaml()))
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "the first day, such as 2026-01-31; 30 days ago by default")
	flags.StringVar(&until, "until", "", "the day before which it ends; now by default")
	flags.StringVar(&req.AgentId, "agent", "", "only of this agent")
	flags.BoolVar(&weeks, "weeks", false, "by week instead of by agent")
	flags.BoolVar(&markdown, "markdown", false, "print the whole report as a Markdown document")
	return cmd
}

func recommendCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.GetRecommendationRequest{}
	cmd := &cobra.Command{
		Use: "recommend [GOAL]", Short: "Recommend an agent, a model and a mode, from earlier runs",
		Long:    "The ways that earlier runs took, the best first: by expected success, and by cost where that is alike. With a goal also the patterns that match it.",
		Example: "deckhand insight recommend\n" + `deckhand insight recommend "migrate the orders table" --task-type migration`, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Goal = env.Optional(args, 0)
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Insights.GetRecommendation(cmd.Context(), req)
			if err != nil {
				return err
			}
			e.Notef("%s", termsafe.Line(res.GetBasis()))
			for _, p := range res.GetPatterns() {
				e.Notef("pattern %s matches: %s", p.GetPattern().GetId(), termsafe.Line(p.GetPattern().GetTitle()))
			}
			type strategy = *deckhandv1.Strategy
			return output.List(e.Printer(), output.Noun[strategy]{
				Name: strategy.GetAgentName,
				Columns: []output.Column[strategy]{
					{Header: "agent", Value: strategy.GetAgentName},
					{Header: "model", Value: func(s strategy) string { return output.ModelName(s.GetProvider(), s.GetModel()) }},
					{Header: "mode", Value: strategy.GetMode},
					{Header: "runs", Value: func(s strategy) string { return fmt.Sprint(s.GetRuns()) }},
					{Header: "succeeded", Value: func(s strategy) string { return fmt.Sprint(s.GetSucceeded()) }},
					{Header: "expected success", Value: func(s strategy) string { return fmt.Sprintf("%.0f %%", 100*s.GetExpectedSuccess()) }},
					{Header: "median cost", Value: func(s strategy) string { return fmt.Sprintf("$%.4f", s.GetCostMicrosP50()/1e6) }},
					{Header: "iterations", Value: func(s strategy) string { return fmt.Sprintf("%.1f", s.GetMeanIterations()) }},
				},
			}, res.GetStrategies())
		},
	}
	cmd.Flags().StringVar(&req.AgentId, "agent", "", "only this agent")
	cmd.Flags().StringVar(&req.TaskType, "task-type", "", "only runs of this type of task")
	return cmd
}
