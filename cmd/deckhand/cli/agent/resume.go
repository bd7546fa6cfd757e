package agent

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func resumeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME...", Short: "Resume paused agents",
		Long:    `Lets the tasks of an agent start that was paused, or that its failures have suspended.`,
		Example: "deckhand agent resume log-triage",
		Args:    env.Args("NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(e, cmd, args, func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error) {
				res, err := client.Agents.ResumeAgent(ctx, &deckhandv1.ResumeAgentRequest{AgentId: name})
				if err != nil {
					return nil, err
				}
				return res.GetAgent(), nil
			})
		},
	}
}
