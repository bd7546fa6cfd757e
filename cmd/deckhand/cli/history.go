package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) taskExportCommand() *cobra.Command {
	format := "jsonl"
	cmd := &cobra.Command{
		Use: "export TASK", Short: "Write a task with all its events, steps and logs, or its terminal",
		Long: `Writes one task to standard output. As jsonl: a line of JSON for the task, for each
event and each step, and for each piece of what its commands wrote, byte for byte;
the last line is of the kind "end", and an export without it is not whole. As
asciicast: what its commands showed, one after the other, in the format of
asciinema (asciicast v3), for players. Secrets are masked.`,
		Example: `deckhand task export task_3q9 > task.jsonl
deckhand task export task_3q9 --format asciicast > task.cast`,
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			formats := map[string]deckhandv1.ExportTaskFormat{
				"jsonl":     deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_JSONL,
				"asciicast": deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_ASCIICAST,
			}
			request := &deckhandv1.ExportTaskRequest{TaskId: args[0], Format: formats[format]}
			if request.GetFormat() == 0 {
				return usage(cmd, "--format is %q, give jsonl or asciicast", format)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			stream, err := client.History.ExportTask(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return pour(a.out, stream)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "jsonl, or asciicast for its terminal")
	return cmd
}

func (a *app) taskStatsCommand() *cobra.Command {
	var since, until string
	request := &deckhandv1.GetStatisticsRequest{}
	cmd := &cobra.Command{
		Use: "stats", Short: "Add up tasks by agent, tool, outcome, day or month",
		Long: `Adds up the tasks of the last 30 days, or of another time: how many ended how, how
long they took and what they cost. By tool, it adds up the calls. Who is no
administrator sees their own tasks only. Days and months are those of UTC.`,
		Example: `deckhand task stats
deckhand task stats --by tool --agent log-triage
deckhand task stats --by day --since 2026-01-01 --until 2026-02-01 -o json`,
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
			res, err := client.History.GetStatistics(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			if who := res.Msg.GetUserName(); who != "" {
				a.notef("of the tasks of %s", who)
			}
			return output.List(a.printer(), statisticsNoun(request.GetBy()), res.Msg.GetRows())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.By, "by", "agent", "agent, tool, outcome, day or month")
	flags.StringVar(&since, "since", "", "the first day, such as 2026-01-31; 30 days ago by default")
	flags.StringVar(&until, "until", "", "the day before which it ends; now by default")
	flags.StringVar(&request.AgentId, "agent", "", "only of this agent")
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
		columns = append(columns, number("calls", (*deckhandv1.StatisticsRow).GetCalls), number("failed", (*deckhandv1.StatisticsRow).GetCallsFailed))
	} else {
		columns = append(
			columns,
			number("succeeded", (*deckhandv1.StatisticsRow).GetSucceeded), number("failed", (*deckhandv1.StatisticsRow).GetFailed),
			number("timed out", (*deckhandv1.StatisticsRow).GetTimedOut), number("cancelled", (*deckhandv1.StatisticsRow).GetCancelled),
			number("live", (*deckhandv1.StatisticsRow).GetLive),
			output.Column[*deckhandv1.StatisticsRow]{Header: "cost", Value: func(r *deckhandv1.StatisticsRow) string { return usd(r.GetUsage().GetCostMicros()) }},
		)
	}
	return output.Noun[*deckhandv1.StatisticsRow]{
		Name: (*deckhandv1.StatisticsRow).GetKey,
		Columns: append(
			columns,
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

// noteEstimate says to people what a run is likely to take and what is left to
// spend. A hub that cannot say does not keep from it.
func (a *app) noteEstimate(ctx context.Context, client *sdk.Client, request *deckhandv1.GetEstimateRequest) {
	if !a.format.ForPeople() {
		return
	}
	res, err := client.History.GetEstimate(ctx, connect.NewRequest(request))
	if err != nil {
		return
	}
	e := res.Msg.GetEstimate()
	text := "likely to take: " + e.GetBasis()
	if e.GetRuns() > 0 {
		text = fmt.Sprintf("likely to take %s and %s, at most %s and %s in nine of ten: %s", lasted(e.GetDurationP50()), usd(e.GetCostMicrosP50()),
			lasted(e.GetDurationP90()), usd(e.GetCostMicrosP90()), e.GetBasis())
	}
	var left []string
	for _, b := range res.Msg.GetBudgets() {
		of := b.GetScope()
		if b.GetEvery() != "" {
			of = "the " + b.GetEvery() + "'s of the " + of
		}
		left = append(left, fmt.Sprintf("%s of %s", usd(max(0, b.GetLimitMicros()-b.GetSpentMicros()-b.GetReservedMicros())), of))
	}
	if res.Msg.RunsLeft != nil {
		left = append(left, fmt.Sprintf("%d runs of the month's plan", res.Msg.GetRunsLeft()))
	}
	if len(left) > 0 {
		text += "; left: " + strings.Join(left, ", ")
	}
	a.notef("%s", dim.Render(text))
}
