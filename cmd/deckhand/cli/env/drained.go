package env

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
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

// Check refuses flags that do not go together.
func (w *Wait) Check(cmd *cobra.Command) error {
	switch {
	case w.timeout < 0:
		return Usage(cmd, "--timeout is %s, give a time such as 10m", w.timeout)
	case w.timeout > 0 && !w.wait:
		return Usage(cmd, "--timeout is how long --wait waits: add --wait")
	}
	return nil
}

// Drained waits, where --wait says so, until count returns 0, and says meanwhile how many
// tasks are left.
func (w *Wait) Drained(cmd *cobra.Command, e *Env, count func(ctx context.Context) (int32, error)) error {
	if !w.wait {
		return nil
	}
	ctx := cmd.Context()
	waiting := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	said, at := int32(-1), time.Time{}
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
		text := fmt.Sprintf("%d tasks still run there after %s", left, w.timeout)
		if left == 1 {
			text = fmt.Sprintf("one task still runs there after %s", w.timeout)
		}
		return Failed(ExitFailed, fault.New(fault.Deadline, "%s", text).
			WithFix("wait longer, or pause or cancel them: deckhand task list --state running; nothing new starts there meanwhile"))
	}
}
