package eval

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// Command returns the command "deckhand eval".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("eval", "Measure how well agents and their guardrails do", `
Scenarios and history are measured on the hub that other commands use; the
guardrails need none.
`, `
deckhand eval run
deckhand eval history --agent log-triage
deckhand eval compare before.json after.json
deckhand eval guardrails
`)
	cmd.AddCommand(runCommand(e), historyCommand(e), figuresCommand(e), compareCommand(e), starterCommand(e), guardrailsCommand(e))
	return cmd
}
