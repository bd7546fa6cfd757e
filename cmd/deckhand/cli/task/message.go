package task

import (
	"context"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func messageCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: `message TASK "TEXT"`, Short: "Send a message to a task's agent",
		Long: `The message goes before the agent's plan: it has it in its next turn. A paused
task goes on with it, and one that waits for review does more.`,
		Example: `deckhand task message task_3q9 "leave /etc alone"`,
		Args:    env.Args("TASK", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeEach(e, cmd, args[:1], func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.TellTask(ctx, connect.NewRequest(&deckhandv1.TellTaskRequest{TaskId: id, Text: args[1]}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetTask(), nil
			})
		},
	}
}
