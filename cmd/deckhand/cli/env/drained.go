package env

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Wait are the flags of a command that can wait until tasks have ended.
type Wait struct {
	wait    bool
	timeout time.Duration
}

// Flags registers them.
func (w *Wait) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&w.wait, "wait", false, "wait until no task runs there, and say how many still do")
	flags.DurationVar(&w.timeout, "timeout", 0, "how long --wait waits, for example 10m; for ever by default")
	flags.Lookup("timeout").DefValue = "" // the help says it in words
}

const (
	// lookEvery is how often the tasks are counted, and sayEvery how often that is said when
	// nothing has changed.
	lookEvery = time.Second
	sayEvery  = 5 * time.Second
)

// Drained waits, where --wait says so, until count returns 0, and says meanwhile how many
// tasks are left.
func (w *Wait) Drained(ctx context.Context, e *Env, count func(ctx context.Context) (int, error)) error {
	if !w.wait {
		return nil
	}
	waiting := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	said, at := -1, time.Time{}
	for {
		left, err := count(ctx)
		if err != nil {
			return err
		}
		if left == 0 {
			e.Notef("no task runs there")
			return nil
		}
		if left != said || time.Since(at) >= sayEvery {
			e.Notef("%d still running", left)
			said, at = left, time.Now()
		}
		if backoff.Wait(waiting, lookEvery) == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return Failed(ExitFailed, fault.New(fault.Deadline, "%d tasks still run there after %s", left, w.timeout).
			WithFix("wait longer, or pause or cancel them: deckhand task list --state running; nothing new starts there meanwhile"))
	}
}
