// Command deckhand-init is PID 1 of every jail. It starts the jail's commands
// and records their output and exit status; see package initd.
package main

import (
	"fmt"
	"os"

	"github.com/deckhand-sh/deckhand/node/initd"
)

func main() {
	if err := initd.Main(); err != nil {
		fmt.Fprintln(os.Stderr, "deckhand-init:", err)
		os.Exit(1)
	}
}
