package agent

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func enableCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "enable NAME...", Short: "Let disabled agents take tasks again", Example: "deckhand agent enable log-triage",
		Args: env.Args("NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(e, cmd, args, func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error) {
				res, err := client.Agents.EnableAgent(ctx, &deckhandv1.EnableAgentRequest{AgentId: name})
				if err != nil {
					return nil, err
				}
				return res.GetAgent(), nil
			})
		},
	}
}
