package agent

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func undeleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undelete NAME", Short: "Undo the deletion of an agent, within 7 days",
		Long:    "Triggers that the deletion stopped are enabled again. agent list --deleted shows what can be undone.",
		Example: "deckhand agent undelete log-triage", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.UndeleteAgent(cmd.Context(), &deckhandv1.UndeleteAgentRequest{AgentId: args[0]})
			if err != nil {
				return err
			}
			if names := res.GetTriggers(); len(names) > 0 {
				e.Notef("enabled again: %s", termsafe.Line(strings.Join(names, ", ")))
			}
			return output.Brief(e.Printer(), noun(e), res.GetAgent())
		},
	}
}
