package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/task"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func messageCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: `message NAME "TEXT"`, Short: "Send a message to an agent",
		Long:    `The task that the agent is at gets the message. An idle agent gets a new task with the message as its goal.`,
		Example: `deckhand agent message log-triage "look at the mail log too"`,
		Args:    env.Args("NAME", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.TellAgent(cmd.Context(), &deckhandv1.TellAgentRequest{AgentId: args[0], Text: args[1]})
			if err != nil {
				return err
			}
			if res.GetCreated() {
				e.Notef("The agent was idle, so this started a new task.")
			}
			return output.Brief(e.Printer(), task.Noun(e), res.GetTask())
		},
	}
}
