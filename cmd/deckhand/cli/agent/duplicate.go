package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func duplicateCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.DuplicateAgentRequest{}
	cmd := &cobra.Command{
		Use: "duplicate NAME NEW-NAME", Short: "Make a new agent from the persona of another",
		Long: `The copy is yours and is seen by as many as the original. It has the same persona
and policy, no triggers, an empty workspace and no history.`,
		Example: "deckhand agent duplicate log-triage my-triage", Args: env.Args("NAME", "NEW-NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.AgentId, request.Name = args[0], args[1]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.DuplicateAgent(cmd.Context(), request)
			if err != nil {
				return err
			}
			if res.GetDroppedTriggers() {
				e.Notef("the original's persona names triggers, which the copy does not have: their names are taken")
			}
			return output.Brief(e.Printer(), noun(e), res.GetAgent())
		},
	}
	cmd.Flags().Int32Var(&request.Version, "version", 0, "the version to copy; the newest by default")
	return cmd
}
