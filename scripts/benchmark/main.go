// Command benchmark measures Deckhand's performance; scripts/bench runs it.
package main

import (
	egressproxy "github.com/deckhand-sh/deckhand/node/egress/process"

	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	egressproxy.RunIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if egressRole() || leastRole() {
		return
	}
	if len(os.Args) != 2 || benchmarks[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: scripts/bench NAME, where NAME is one of %v\n", names())
		os.Exit(2)
	}
	out, err := benchmarks[os.Args[1]](ctx)
	if err == nil {
		out["name"] = os.Args[1]
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
