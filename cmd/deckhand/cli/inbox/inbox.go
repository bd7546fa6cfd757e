// Package inbox is the command "deckhand inbox": it lists what waits for a
// person, and answers it: one command for each answer.
//
// Arguments, previews and definitions are shown literally (package literal),
// with every invisible character visible. An answer carries the digest of what
// was shown, so the hub refuses it when that has changed.
package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// Command returns the command "deckhand inbox".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("inbox", "See what waits for a person, and answer it", `
The inbox contains calls to approve, questions of agents, calls of which it is
not known whether they took effect, runs in review mode to accept, tasks that
do not continue by themselves, and what keeps work from going on: limits, budgets,
suspended agents, refused hosts, keys that ended. A task that waits holds no worker. The first answer counts; ids
may be shortened as long as they name one item.
`, `
deckhand inbox review
deckhand inbox list
deckhand inbox show inbox_3q9
deckhand inbox approve inbox_3q9
deckhand inbox answer inbox_7bc "the one in Frankfurt"
deckhand inbox accept inbox_9xk
`)
	cmd.AddCommand(listCommand(e), showCommand(e), approveCommand(e), rejectCommand(e),
		answerCommand(e), downloadCommand(e), retryCommand(e), skipCommand(e), suggestCommand(e), replanCommand(e), askCommand(e), markCommand(e),
		acceptCommand(e), changesCommand(e), closeCommand(e), raiseCommand(e), allowCommand(e), resumeCommand(e), dismissCommand(e), snoozeCommand(e), reviewCommand(e))
	return cmd
}
