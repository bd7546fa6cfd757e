// Command deckhand-node is the daemon that makes a machine a node of a Deckhand
// fleet: it enrols with a hub and runs agents' commands in jails; see package
// daemon.
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/node/daemon"
)

func main() {
	os.Exit(daemon.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
