// Command deckhand-node runs a machine as a node of a Deckhand fleet.
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/node/daemon"
)

func main() {
	os.Exit(daemon.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
