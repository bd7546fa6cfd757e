// Package hubcontext is the command "deckhand context": it chooses the hub that
// other commands use.
package hubcontext

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// Command returns the command "deckhand context".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("context", "Choose the hub that commands use", `
A context is a hub's URL and a token for it, under a name. The current one is
used wherever --hub and DECKHAND_HUB_URL say nothing.
`, `
deckhand context use prod --hub https://hub.example.com --token dhu_…
deckhand context list
`)
	cmd.AddCommand(useCommand(e), addCommand(e), listCommand(e), removeCommand(e))
	return cmd
}
