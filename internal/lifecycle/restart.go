package lifecycle

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// restartTries is how many runs in a row, none as long as restartFast, end a
	// service for good.
	restartFast  = 10 * time.Second
	restartTries = 10
	// restartCalm is how long a service runs before its next end is waited for as
	// briefly as the first.
	restartCalm = time.Minute
)

// Restart keeps a service running: one that ends by itself is started again
// after a wait of 100 ms, which doubles up to 10 s while it keeps ending. It gives
// up, with the last error, when the service ended ten times in a row
// without ever having run for 10 s.
//
// The first start is not repeated: what fails there is more likely a mistake in
// the configuration than bad luck.
type Restart struct {
	Runner

	// Name names the service in the log and in errors.
	Name string
	// Service is what runs.
	Service Service
	// Fix says what a person does about a service that does not stay up.
	Fix string
	// Log receives a message for each end; nil for none.
	Log hclog.Logger

	restarting atomic.Bool
	ends       atomic.Int64
}

var _ Service = (*Restart)(nil)

// Restarting reports whether the service has ended and does not serve again yet.
func (r *Restart) Restarting() bool { return r.restarting.Load() }

// Ends returns how often the service has ended by itself.
func (r *Restart) Ends() int64 { return r.ends.Load() }

// Start starts the service and returns when it serves.
func (r *Restart) Start(ctx context.Context) error {
	if r.Log == nil {
		r.Log = hclog.NewNullLogger()
	}
	// Stopped by this one's own end, in order, also when ctx ends.
	if err := r.Service.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := r.Run(ctx, r.keep); err != nil {
		r.Service.Stop()
		return err
	}
	return nil
}

// keep starts the service again each time that it ends, until ctx does.
func (r *Restart) keep(ctx context.Context) error {
	defer r.Service.Stop()
	started, failures, fast := time.Now(), 0, 0
	var err error // why the last start failed
	for {
		if err == nil {
			select {
			case <-ctx.Done():
				return nil
			case <-r.Service.Done():
			}
			r.restarting.Store(true)
			r.ends.Add(1)
			if err = r.Service.Err(); err == nil {
				err = errors.New("it stopped without an error")
			}
		}
		ran := time.Since(started)
		if ran >= restartCalm {
			failures = 0
		}
		if ran >= restartFast {
			fast = 0
		} else if fast++; fast == restartTries {
			return fault.New(fault.Precondition, "%s ended %d times in a row within %s of its start: %v", r.Name, restartTries, restartFast, err).
				WithFix("%s", r.Fix).WithCause(err)
		}
		failures++
		pause := backoff.Policy{}.Delay(failures)
		r.Log.Warn("a part ended and is started again", "part", r.Name, "error", err, "ran", ran.Round(time.Millisecond).String(), "next_try_in", pause.Round(time.Millisecond).String())
		if backoff.Wait(ctx, pause) != nil {
			return nil
		}
		if err = r.Service.Start(ctx); err == nil {
			r.restarting.Store(false)
			r.Log.Info("a part runs again", "part", r.Name)
		}
		started = time.Now()
	}
}
