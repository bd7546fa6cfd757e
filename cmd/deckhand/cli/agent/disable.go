package agent

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// disableOptions are the flags of agent disable.
type disableOptions struct {
	reason string
}

func disableCommand(e *env.Env) *cobra.Command {
	var o disableOptions
	cmd := &cobra.Command{
		Use: "disable NAME...", Short: "Disable agents: they take no new tasks until they are enabled",
		Long: `Submissions to a disabled agent are refused with your name and the reason, and
what its triggers receive fails. Tasks that have started go on. To have new tasks
wait instead, use agent pause.`,
		Example: `deckhand agent disable log-triage --reason "its report is wrong"`,
		Args:    env.Args("NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(e, cmd, args, func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error) {
				res, err := client.Agents.DisableAgent(ctx, &deckhandv1.DisableAgentRequest{AgentId: name, Reason: o.reason})
				if err != nil {
					return nil, err
				}
				return res.GetAgent(), nil
			})
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the record and for those whose tasks are refused")
	return cmd
}
