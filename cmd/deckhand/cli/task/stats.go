package task

import (
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// statsOptions are the flags of task stats.
type statsOptions struct {
	since   string
	until   string
	request *deckhandv1.GetStatisticsRequest
}

func statsCommand(e *env.Env) *cobra.Command {
	o := statsOptions{request: &deckhandv1.GetStatisticsRequest{}}
	cmd := &cobra.Command{
		Use: "stats", Short: "Summarize tasks by agent, tool, outcome, day or month",
		Long: `Adds up the tasks of the last 30 days, or of another time: how many ended how, how
long they took and what they cost. By tool, it adds up the calls. Who is no
administrator sees their own tasks only. Days and months are those of UTC.`,
		Example: `deckhand task stats
deckhand task stats --by tool --agent log-triage
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
			res, err := client.History.GetStatistics(cmd.Context(), connect.NewRequest(o.request))
			if err != nil {
				return err
			}
			if who := res.Msg.GetUserName(); who != "" {
				e.Notef("of the tasks of %s", who)
			}
			return output.List(e.Printer(), statisticsNoun(o.request.GetBy()), res.Msg.GetRows())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.request.By, "by", "agent", "agent, tool, outcome, day or month")
	flags.StringVar(&o.since, "since", "", "the first day, such as 2026-01-31; 30 days ago by default")
	flags.StringVar(&o.until, "until", "", "the day before which it ends; now by default")
	flags.StringVar(&o.request.AgentId, "agent", "", "only of this agent")
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
			output.Column[*deckhandv1.StatisticsRow]{Header: "cost", Value: func(r *deckhandv1.StatisticsRow) string { return output.USD(r.GetUsage().GetCostMicros()) }},
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
