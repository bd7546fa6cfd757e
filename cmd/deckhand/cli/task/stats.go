package task

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/phase"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// statsOptions are the flags of task stats.
type statsOptions struct {
	since   string
	until   string
	csv     bool
	request *deckhandv1.GetStatisticsRequest
}

func statsCommand(e *env.Env) *cobra.Command {
	o := statsOptions{request: &deckhandv1.GetStatisticsRequest{}}
	cmd := &cobra.Command{
		Use: "stats", Short: "Summarize tasks by agent, version, type, tool, outcome or time",
		Long: `Adds up the tasks of the last 30 days, or of another time: how many ended how, how
many succeeded without a retry, how many iterations they had, how long they took and what
they cost. By tool, it adds up the calls. With -o wide also the time in each phase, all
tasks together. Users who are not administrators see their own tasks only. Days, weeks
(ISO 8601) and months are those of UTC.`,
		Example: `deckhand task stats
deckhand task stats --by tool --agent log-triage
deckhand task stats --by version --agent log-triage -o wide
deckhand task stats --by week --csv > /tmp/statistics.csv
deckhand task stats --by day --since 2026-01-01 --until 2026-02-01 -o json`,
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
			res, err := client.History.GetStatistics(cmd.Context(), o.request)
			if err != nil {
				return err
			}
			if o.csv {
				return writeCSV(e.Printer().Out, o.request.GetBy(), res.GetRows())
			}
			if who := res.GetUserName(); who != "" {
				e.Notef("of the tasks of %s", who)
			}
			return output.List(e.Printer(), statisticsNoun(o.request.GetBy()), res.GetRows())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.request.By, "by", "agent", "agent, version, task_type, tool, outcome, day, week or month")
	flags.BoolVar(&o.csv, "csv", false, "print comma-separated values with all columns, for a spreadsheet")
	flags.StringVar(&o.since, "since", "", "the first day, such as 2026-01-31; 30 days ago by default")
	flags.StringVar(&o.until, "until", "", "the day before which it ends; now by default")
	flags.StringVar(&o.request.AgentId, "agent", "", "only of this agent")
	flags.Int32Var(&o.request.AgentVersion, "version", 0, "only of this version of the agent; all by default")
	flags.Lookup("version").DefValue = ""
	flags.StringVar(&o.request.TaskType, "task-type", "", "only tasks of this type")
	return cmd
}

func statisticsNoun(by string) output.Noun[*deckhandv1.StatisticsRow] {
	number := func(header string, of func(*deckhandv1.StatisticsRow) int64) output.Column[*deckhandv1.StatisticsRow] {
		return output.Column[*deckhandv1.StatisticsRow]{Header: header, Value: func(r *deckhandv1.StatisticsRow) string { return fmt.Sprint(of(r)) }}
	}
	columns := []output.Column[*deckhandv1.StatisticsRow]{
		{Header: by, Value: (*deckhandv1.StatisticsRow).GetKey}, number("tasks", (*deckhandv1.StatisticsRow).GetTasks),
	}
	if by == "tool" {
		columns = append(
			columns, number("calls", (*deckhandv1.StatisticsRow).GetCalls), number("failed", (*deckhandv1.StatisticsRow).GetCallsFailed),
			number("denied", (*deckhandv1.StatisticsRow).GetDenied), number("retries", (*deckhandv1.StatisticsRow).GetRetries),
		)
	} else {
		columns = append(
			columns,
			number("succeeded", (*deckhandv1.StatisticsRow).GetSucceeded), number("failed", (*deckhandv1.StatisticsRow).GetFailed),
			number("timed out", (*deckhandv1.StatisticsRow).GetTimedOut), number("cancelled", (*deckhandv1.StatisticsRow).GetCancelled),
			number("live", (*deckhandv1.StatisticsRow).GetLive), number("first time", (*deckhandv1.StatisticsRow).GetFirstTime),
			number("retries", (*deckhandv1.StatisticsRow).GetRetries), number("denied", (*deckhandv1.StatisticsRow).GetDenied),
			output.Column[*deckhandv1.StatisticsRow]{Header: "iterations", Value: func(r *deckhandv1.StatisticsRow) string { return fmt.Sprintf("%.1f", r.GetMeanIterations()) }},
			output.Column[*deckhandv1.StatisticsRow]{Header: "cost", Value: func(r *deckhandv1.StatisticsRow) string { return output.USD(r.GetUsage().GetCostMicros()) }},
		)
	}
	if by != "tool" {
		for i, name := range phase.Names() {
			columns = append(columns, output.Column[*deckhandv1.StatisticsRow]{Header: name, Wide: true, Value: func(r *deckhandv1.StatisticsRow) string {
				if i >= len(r.GetPhases()) || r.GetTimed() == 0 {
					return ""
				}
				return lasted(r.GetPhases()[i].GetTotal())
			}})
		}
	}
	return output.Noun[*deckhandv1.StatisticsRow]{
		Name: (*deckhandv1.StatisticsRow).GetKey,
		Columns: append(
			columns,
			output.Column[*deckhandv1.StatisticsRow]{Header: "mean", Wide: true, Value: func(r *deckhandv1.StatisticsRow) string { return lasted(r.GetDurationMean()) }},
			output.Column[*deckhandv1.StatisticsRow]{Header: "median", Value: func(r *deckhandv1.StatisticsRow) string { return lasted(r.GetDurationP50()) }},
			output.Column[*deckhandv1.StatisticsRow]{Header: "p90", Value: func(r *deckhandv1.StatisticsRow) string { return lasted(r.GetDurationP90()) }},
		),
	}
}

func lasted(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return output.Duration(d.AsDuration())
}

// csvColumns are the columns after the first and before those of the phases.
var csvColumns = []string{
	"tasks", "succeeded", "failed", "timed_out", "cancelled", "live", "first_time", "retries", "denied", "calls", "calls_failed", "mean_iterations",
	"duration_mean_s", "duration_p50_s", "duration_p90_s", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd",
}

// writeCSV writes rows with all their columns. Durations are in seconds, and the cost is in US
// dollars. The console's download has the same columns.
func writeCSV(to io.Writer, by string, rows []*deckhandv1.StatisticsRow) error {
	header := slices.Concat([]string{by}, csvColumns)
	for _, name := range phase.Names() {
		header = append(header, name+"_s")
	}
	out := csv.NewWriter(to)
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write statistics: %w", err)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	seconds := func(d *durationpb.Duration) string {
		if d == nil {
			return ""
		}
		return strconv.FormatFloat(d.AsDuration().Seconds(), 'f', 3, 64)
	}
	for _, r := range rows {
		u := r.GetUsage()
		line := []string{
			output.SpreadsheetText(r.GetKey()), number(r.GetTasks()), number(r.GetSucceeded()), number(r.GetFailed()), number(r.GetTimedOut()), number(r.GetCancelled()),
			number(r.GetLive()), number(r.GetFirstTime()), number(r.GetRetries()), number(r.GetDenied()), number(r.GetCalls()), number(r.GetCallsFailed()),
			strconv.FormatFloat(r.GetMeanIterations(), 'f', 2, 64), seconds(r.GetDurationMean()), seconds(r.GetDurationP50()), seconds(r.GetDurationP90()),
			number(u.GetInputTokens()), number(u.GetOutputTokens()), number(u.GetCacheReadTokens()), number(u.GetCacheWriteTokens()),
			strconv.FormatFloat(float64(u.GetCostMicros())/1e6, 'f', 6, 64),
		}
		for i := range phase.Names() {
			var d *durationpb.Duration
			if i < len(r.GetPhases()) && r.GetTimed() > 0 {
				d = r.GetPhases()[i].GetTotal()
			}
			line = append(line, seconds(d))
		}
		if err := out.Write(line); err != nil {
			return fmt.Errorf("write statistics: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write statistics: %w", err)
	}
	return nil
}
