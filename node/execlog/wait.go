package execlog

import (
	"context"
	"time"
)

// A follower looks again after a pause that is short while output comes and
// grows while it does not. Looking is two stat calls; it needs no watch on the
// files, of which the kernel grants a process only so many.
const (
	shortPause = 2 * time.Millisecond
	longPause  = 100 * time.Millisecond
)

type waiter struct {
	timer *time.Timer
	pause time.Duration
}

func newWaiter() *waiter {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{timer: t, pause: shortPause}
}

func (w *waiter) stop() { w.timer.Stop() }

// next returns when it is time to look again, at once when the log has ended.
func (w *waiter) next(ctx context.Context, ended <-chan struct{}, progress bool) error {
	if progress {
		w.pause = shortPause
	}
	w.timer.Reset(w.pause)
	w.pause = min(2*w.pause, longPause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
		return nil
	case <-w.timer.C:
		return nil
	}
}
