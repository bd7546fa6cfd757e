// Command deckhand runs the hub, the worker, or everything on one machine, and
// is the command line for all of it.
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
	"github.com/deckhand-sh/deckhand/node/egress/process"
)

func main() {
	process.RunIfAsked()
	ctx, stop := cli.WithSignals(context.Background())
	code := cli.Execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
