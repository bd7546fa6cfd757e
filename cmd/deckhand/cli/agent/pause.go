package agent

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// pauseOptions are the flags of agent pause.
type pauseOptions struct {
	reason string
}

func pauseCommand(e *env.Env) *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use: "pause NAME...", Short: "Pause agents: no new tasks start until they are resumed",
		Long: `Tasks that are submitted to a paused agent wait in the queue and say why. What
is in progress goes on: pause that with task pause, or end it with kill agent.`,
		Example: `deckhand agent pause log-triage --reason "the disk is being replaced"`,
		Args:    env.Args("NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(e, cmd, args, func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error) {
				res, err := client.Agents.PauseAgent(ctx, &deckhandv1.PauseAgentRequest{AgentId: name, Reason: o.reason})
				if err != nil {
					return nil, err
				}
				return res.GetAgent(), nil
			})
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the record and for those whose tasks wait")
	return cmd
}
