package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/override"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// resumeOptions are the flags of task resume.
type resumeOptions struct {
	more map[string]string
}

func resumeCommand(e *env.Env) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use: "resume TASK...", Short: "Resume paused tasks",
		Long: `Lets paused tasks go on from where they stood, and takes back a pause that was
asked for with --on-next-tool. A task that stands at a limit goes on when an
admin gives it a higher one with --limit: iterations, active_time, tokens, calls,
cost_usd, files or file_size, for this run only.`,
		Example: `deckhand task resume task_3q9
deckhand task resume task_3q9 --limit iterations=200 --limit cost_usd=20`,
		Args: env.Args("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, err := override.Limits(cmd, o.more)
			if err != nil {
				return err
			}
			return changeEach(e, cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.ResumeTask(ctx, &deckhandv1.ResumeTaskRequest{TaskId: id, Limits: limits})
				if err != nil {
					return nil, err
				}
				return res.GetTask(), nil
			})
		},
	}
	override.LimitFlag(cmd, &o.more)
	return cmd
}
