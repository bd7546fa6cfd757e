package budget

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// reportOptions are the flags of budget report.
type reportOptions struct {
	since   string
	until   string
	request *deckhandv1.GetUsageReportRequest
}

func reportCommand(e *env.Env) *cobra.Command {
	o := reportOptions{request: &deckhandv1.GetUsageReportRequest{}}
	cmd := &cobra.Command{
		Use: "report", Short: "Report model costs by agent, user, model, task, hour, day or month, with a forecast",
		Long: `Adds up what calls of models cost: this month, or in another time. What the month
is going to cost goes on from the last seven days. Who is no administrator sees
their own tasks only. Days and months are those of UTC.`,
		Example: `deckhand budget report
deckhand budget report --by day --since 2026-01-01 -o json`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.request.Since, err = env.Day(cmd, "--since", o.since); err != nil {
				return err
			}
			if o.request.Until, err = env.Day(cmd, "--until", o.until); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Budgets.GetUsageReport(cmd.Context(), o.request)
			if err != nil {
				return err
			}
			f := res.GetForecast()
			e.Notef("%s", outlook(f))
			if at := f.GetReachedAt(); at != nil {
				e.Notef("The month's budget of %s is reached %s.", output.USD(f.GetLimitMicros()), output.Moment(at))
			}
			return output.List(e.Printer(), usageRowNoun(o.request.GetBy()), append(res.GetRows(), total(res)...))
		},
	}
	cmd.Flags().StringVar(&o.request.By, "by", "agent", "agent, user, model, task, hour, day or month")
	cmd.Flags().StringVar(&o.since, "since", "", "from this day on, in UTC; the month's first by default")
	cmd.Flags().StringVar(&o.until, "until", "", "up to the beginning of this day, in UTC; now by default")
	return cmd
}

// outlook says what the month has cost, and what it is likely to.
func outlook(f *deckhandv1.UsageForecast) string {
	spent := fmt.Sprintf("%s: %s so far. ", f.GetMonth(), output.USD(f.GetSpentMicros()))
	if f.GetEarly() {
		return spent + "Too early to tell what the month will cost: that takes three days of use."
	}
	return spent + fmt.Sprintf("Forecast: %s by the end of the month, at %s a day (mean of the last %d days).",
		output.USD(f.GetMonthMicros()), output.USD(f.GetDailyMicros()), f.GetDays())
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
			{Header: "cost", Value: func(x *deckhandv1.UsageRow) string { return output.USD(x.GetUsage().GetCostMicros()) }},
		},
	}
}
