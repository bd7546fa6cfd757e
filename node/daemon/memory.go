package daemon

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/memtrim"
)

// The daemon must use little memory, because the machine is for other work: it
// trades processor time, of which it uses very little, for memory.
const (
	gcPercent = 40
	// memoryLimit is soft: above it memory is collected without regard to what
	// that costs.
	memoryLimit = 256 << 20
	// settlePause is after how long, again and again, what is not in use is
	// given back, if this process then holds more than restingBytes.
	settlePause  = 5 * time.Second
	restingBytes = 32 << 20
)

// keepSmall makes this process a small one. It is for the program alone, and
// not for a node inside another.
func keepSmall() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
}

// settle returns unused memory to the kernel until ctx ends: what the start,
// and later work, needed. The pause between two attempts grows while the
// process stays above restingBytes.
func settle(ctx context.Context) {
	for pause := settlePause; backoff.Wait(ctx, pause) == nil; {
		if memtrim.Bytes() <= restingBytes {
			pause = settlePause
			continue
		}
		memtrim.LetGo()
		pause = min(2*pause, time.Minute)
	}
}
