package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// cancelOptions are the flags of task cancel.
type cancelOptions struct {
	filterOptions

	reason string
	dryRun bool
	limit  int32
	key    string
}

func cancelCommand(e *env.Env) *cobra.Command {
	o := cancelOptions{filterOptions: filterOptions{request: &deckhandv1.ListTasksRequest{}}}
	cmd := &cobra.Command{
		Use: "cancel [TASK...]", Short: "Cancel tasks and kill their running commands",
		Long: `Cancels the tasks that are named, or those that a filter picks, the newest first:
your own ones or, as an administrator, everybody's.`,
		Example: `deckhand task cancel task_3q9 --reason "wrong server"
# which of an agent's tasks would be cancelled, and then those
deckhand task cancel --agent log-triage --state queued --dry-run
deckhand task cancel --agent log-triage --state queued`,
		Args: env.Args("[TASK...]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.read(cmd); err != nil {
				return err
			}
			filtered := o.filtered()
			switch {
			case len(args) > 0 && filtered:
				return env.Usage(cmd, "tasks are both named and picked by a filter, use one of them")
			case len(args) > 0 && o.dryRun:
				return env.Usage(cmd, "--dry-run goes with a filter, such as --agent or --state")
			case len(args) == 0 && !filtered:
				return env.Usage(cmd, "no task is named, name some or pick them with --agent, --state, --search, --from, --to or --parent")
			case filtered && o.limit < 1:
				return env.Usage(cmd, "--limit is %d, use 1 to 500", o.limit)
			case filtered:
				return o.cancelPicked(e, cmd)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			var tasks []*deckhandv1.Task
			for _, id := range args {
				res, err := client.Tasks.CancelTask(cmd.Context(), &deckhandv1.CancelTaskRequest{TaskId: id, Reason: o.reason})
				if err != nil {
					return err
				}
				tasks = append(tasks, res.GetTask())
			}
			if len(tasks) == 1 {
				return output.Brief(e.Printer(), Noun(e), tasks[0])
			}
			return output.List(e.Printer(), Noun(e), tasks)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what the filter picks")
	cmd.Flags().Int32Var(&o.limit, "limit", 100, "maximum number of tasks that a filter cancels, at most 500")
	cmd.Flags().StringVar(&o.key, "idempotency-key", "", "key that identifies this cancellation by a filter: a repetition with the same key cancels nothing more")
	return cmd
}

// filtered reports whether a flag picks tasks.
func (o *cancelOptions) filtered() bool {
	r := o.request
	return len(r.GetStates()) > 0 || r.GetAgentId() != "" || r.GetQuery() != "" || r.GetParentId() != "" || r.GetCreatedFrom() != nil || r.GetCreatedBefore() != nil
}

// cancelPicked cancels what the filter picks.
func (o *cancelOptions) cancelPicked(e *env.Env, cmd *cobra.Command) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	res, err := client.Tasks.CancelTasks(sdk.WithIdempotencyKey(cmd.Context(), o.key), &deckhandv1.CancelTasksRequest{
		AgentId: o.request.GetAgentId(), States: o.request.GetStates(), Query: o.request.GetQuery(), ParentId: o.request.GetParentId(),
		CreatedFrom: o.request.GetCreatedFrom(), CreatedBefore: o.request.GetCreatedBefore(), Reason: o.reason, DryRun: o.dryRun, Limit: o.limit,
	})
	if err != nil {
		return err
	}
	if err := output.List(e.Printer(), Noun(e), res.GetTasks()); err != nil {
		return err
	}
	did := "cancelled"
	if o.dryRun {
		did = "would be cancelled"
	}
	left := res.GetLeft()
	switch {
	case left.GetAtLeast():
		e.Notef("%d %s, more than %d others match", len(res.GetTasks()), did, left.GetCount())
	case left.GetCount() > 0:
		e.Notef("%d %s, %d others match", len(res.GetTasks()), did, left.GetCount())
	default:
		e.Notef("%d %s", len(res.GetTasks()), did)
	}
	return nil
}
