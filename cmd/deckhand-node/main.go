// Command deckhand-node is the daemon that makes a machine a node of a Deckhand
// fleet: it enrols with a hub and runs agents' commands in jails; see package
// node/daemon.
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/cmd/deckhand-node/cli"
	"github.com/deckhand-sh/deckhand/node/egress/process"
)

func main() {
	process.RunIfAsked()
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
