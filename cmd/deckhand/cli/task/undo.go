package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/change"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// undoOptions are the flags of task undo.
type undoOptions struct {
	jobs []string
}

func undoCommand(e *env.Env) *cobra.Command {
	req, how := &deckhandv1.UndoChangesRequest{}, &change.Undo{}
	var o undoOptions
	cmd := &cobra.Command{
		Use: "undo TASK", Short: "Undo the changes that a task made in its workspace",
		Long: `Shows what would be restored: of the whole task, of its last steps, or of
named ones. With --yes it is done, unless later steps changed the same files,
which are reported then. What a job changed after its step had ended is undone with the
whole task, or with --job. Only files of the workspace come back: what a command
did elsewhere stays done. What a step changed on a machine itself is undone by an
administrator, with --step for that step alone: see docs/host.md.`,
		Example: `deckhand task undo task_3q9
deckhand task undo task_3q9 --last 2 --yes
deckhand task undo task_3q9 --step step_7bc --skip-conflicts --yes
deckhand task undo task_3q9 --job job_2dx --yes`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.TaskId = args[0]
			req.StepIds = append(req.GetStepIds(), o.jobs...)
			if len(req.GetStepIds()) > 0 && req.GetLast() > 0 {
				return env.Usage(cmd, "--last and --step or --job exclude each other")
			}
			return change.Run(e, cmd, how, func(ctx context.Context, client *sdk.Client, r change.Request) (*deckhandv1.UndoChangesResponse, error) {
				req.OnConflict, req.Preview, req.ExpectState = r.OnConflict, r.Preview, r.ExpectState
				res, err := client.Workspaces.UndoChanges(ctx, req)
				if err != nil {
					return nil, err
				}
				return res, nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&req.StepIds, "step", nil, "only what these steps changed")
	cmd.Flags().StringSliceVar(&o.jobs, "job", nil, "only what these jobs changed")
	cmd.Flags().Int32Var(&req.Last, "last", 0, "only the last so many steps that changed something")
	how.Register(cmd)
	return cmd
}
