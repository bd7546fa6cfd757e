package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// showOptions are the flags of agent show.
type showOptions struct {
	number int32
}

func showCommand(e *env.Env) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show an agent and its persona",
		Example: `deckhand agent show log-triage
# as it was
deckhand agent show log-triage --version 1`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.GetAgent(cmd.Context(), &deckhandv1.GetAgentRequest{AgentId: args[0], Version: o.number})
			if err != nil {
				return err
			}
			return output.One(e.Printer(), versionNoun(e), res)
		},
	}
	cmd.Flags().Int32Var(&o.number, "version", 0, "show this version; the newest by default")
	return cmd
}
