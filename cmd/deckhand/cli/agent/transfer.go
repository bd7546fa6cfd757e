package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func transferCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.TransferAgentRequest{}
	cmd := &cobra.Command{
		Use: "transfer NAME", Short: "Change whose an agent is, and who sees it",
		Long: `The owner, a user or all members of a team, sees the agent with its tasks and
workspace, and may change, transfer and delete it. --visibility says who else sees
it: private for nobody, team for whoever is in a team with its owner, organisation
for everybody. Administrators see and manage all.`,
		Example: `deckhand agent transfer log-triage --owner team:ops
deckhand agent transfer log-triage --owner alice --visibility private`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.AgentId = args[0]
			if request.GetOwner() == "" && request.GetVisibility() == "" {
				return env.Usage(cmd, "give --owner, --visibility, or both")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Agents.TransferAgent, request, (*deckhandv1.TransferAgentResponse).GetAgent)
		},
	}
	addOwnership(cmd, &request.Owner, &request.Visibility)
	return cmd
}

// addOwnership adds the flags that say whose an agent is.
func addOwnership(cmd *cobra.Command, owner, visibility *string) {
	cmd.Flags().StringVar(owner, "owner", "", "a user, user:NAME or team:NAME")
	cmd.Flags().StringVar(visibility, "visibility", "", "who else sees it: private, team or organisation")
}
