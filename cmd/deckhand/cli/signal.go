package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// WithSignals returns a context that ends at the first SIGINT or SIGTERM, for
// an orderly stop. The second one ends the process at once with 130: whoever
// presses Ctrl-C twice does not want to wait. Call the answered function when
// the command has ended.
func WithSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range signals {
			if ctx.Err() != nil {
				os.Exit(env.ExitInterrupted)
			}
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}
