package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func renameCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.RenameAgentRequest{}
	cmd := &cobra.Command{
		Use: "rename NAME NEW-NAME", Short: "Give an agent another name",
		Long: `Stores a version of its persona with the new name, and keeps its tasks, triggers,
workspace and credentials. The old name leads to the agent from then on. Write the
new name into your persona file, too: agent apply refuses the old one.`,
		Example: `deckhand agent rename log-triage log-reader
deckhand agent rename log-reader log-reader --forget`,
		Args: env.Args("NAME", "NEW-NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.AgentId, request.Name = args[0], args[1]
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Agents.RenameAgent, request, (*deckhandv1.RenameAgentResponse).GetAgent)
		},
	}
	cmd.Flags().BoolVar(&request.Forget, "forget", false, "free the names that it had before: they lead to it no more")
	return cmd
}
