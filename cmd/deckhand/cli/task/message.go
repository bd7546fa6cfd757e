package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func messageCommand(e *env.Env) *cobra.Command {
	var interrupt bool
	cmd := &cobra.Command{
		Use: `message TASK "TEXT"`, Short: "Send a message to a task's agent",
		Long: `The message goes before the agent's plan: it has it in its next turn. A paused
task goes on with it, and one that waits for review does more.

With --interrupt the agent stops what it does: the running command is killed, calls
that have not begun are skipped, and the model's turn is cut off. Take back a message
that has not been delivered with: deckhand task withdraw`,
		Example: `deckhand task message task_3q9 "leave /etc alone"
deckhand task message task_3q9 --interrupt "stop the build: look at the linker error first"`,
		Args: env.Args("TASK", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeEach(e, cmd, args[:1], func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.TellTask(ctx, &deckhandv1.TellTaskRequest{TaskId: id, Text: args[1], Interrupt: interrupt})
				if err != nil {
					return nil, err
				}
				return res.GetTask(), nil
			})
		},
	}
	cmd.Flags().BoolVar(&interrupt, "interrupt", false, "stop what the agent does, so that it reads the message next")
	return cmd
}

func withdrawCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "withdraw TASK [MESSAGE]", Short: "Take back a message that the agent has not got yet",
		Long: `Without MESSAGE it is the newest message that waits to be delivered. A message that
was delivered cannot be taken back.`,
		Example: `deckhand task withdraw task_3q9`,
		Args:    env.Args("TASK", "[MESSAGE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeEach(e, cmd, args[:1], func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.WithdrawMessage(ctx, &deckhandv1.WithdrawMessageRequest{TaskId: id, MessageId: env.Optional(args, 1)})
				if err != nil {
					return nil, err
				}
				return res.GetTask(), nil
			})
		},
	}
}
