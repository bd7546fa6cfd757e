// Package periodic runs the background jobs of the hub that leads: each at its own
// interval, one after another.
//
// A job that fails is logged and runs again at its next turn; it does not keep the
// others from running. While one hub takes over the lead from another, both may run
// a job at once, so jobs rely on the database's row locks and may be repeated.
package periodic

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// Job is something to do again and again.
type Job struct {
	// Name completes "cannot ..." in the log, for example "delete old sessions".
	Name string
	// Every is the interval; 0 for that of the Jobs. A job never runs more often than
	// the Jobs' interval.
	Every time.Duration
	// Do does it once.
	Do func(ctx context.Context) error
}

// Uncounted returns a Job's Do from a function that also returns how much it did.
func Uncounted[N any](do func(ctx context.Context) (N, error)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := do(ctx)
		return err
	}
}

// Jobs runs jobs until it is stopped. It is a lifecycle.Service.
type Jobs struct {
	lifecycle.Runner

	every time.Duration
	jobs  []Job
	log   hclog.Logger
}

// New creates Jobs with a common interval.
func New(every time.Duration, log hclog.Logger, jobs ...Job) *Jobs {
	return &Jobs{every: every, jobs: jobs, log: log}
}

// Start runs all jobs once at once, and then at their intervals.
func (j *Jobs) Start(ctx context.Context) error {
	return j.Run(ctx, func(ctx context.Context) error {
		ticker := time.NewTicker(j.every)
		defer ticker.Stop()
		last := make([]time.Time, len(j.jobs))
		for {
			for i, job := range j.jobs {
				if time.Since(last[i]) < job.Every {
					continue
				}
				last[i] = time.Now()
				if err := job.Do(ctx); err != nil && ctx.Err() == nil {
					j.log.Warn("cannot "+job.Name+"; will try again", "error", err)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}
