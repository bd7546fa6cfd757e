package daemon

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
)

// The daemon is to be small beside the work of its machine (DESIGN §6): it
// trades some processor time, of which it uses next to none, for memory.
const (
	gcPercent = 40
	// memoryLimit is soft: above it memory is collected without regard to what
	// that costs.
	memoryLimit = 256 << 20
	// settleAfter is when what only the start needed is no longer in use.
	settleAfter = 5 * time.Second
)

// keepSmall makes this process a small one. It is for the program alone, and
// not for a node inside another.
func keepSmall() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
}

// settle gives back what the start took.
func settle(ctx context.Context) {
	if backoff.Wait(ctx, settleAfter) == nil {
		debug.FreeOSMemory()
	}
}
