package exec

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A command with background_after becomes a job when that time is over: callers that
// wait for it get its state, and it goes on. What it changed until then is recorded as
// the command's, and what it changes later as the job's. Both are in the ledger before
// anybody is told, so that a daemon that dies meanwhile changes nothing.

// jobFromStart reports whether a command is a job from its start.
func jobFromStart(spec *nodev1.ExecSpec) bool {
	return spec.GetBackgroundAfter() != nil && spec.GetBackgroundAfter().AsDuration() <= 0
}

// untilJob returns how long a running command has until it becomes a job; false if it is
// one, or never becomes one.
func (w *watch) untilJob(st *initv1.Status) (time.Duration, bool) {
	after := w.rec.GetSpec().GetBackgroundAfter()
	if after == nil || w.exec().GetJobSince() != nil {
		return 0, false
	}
	if w.started.IsZero() {
		// The monotonic clock from here on, so that it does not matter if the clock is set.
		w.started = time.Now().Add(-max(0, time.Since(time.Unix(0, st.GetStartedAt()))))
	}
	return max(0, after.AsDuration()-time.Since(w.started)), true
}

// inMillis returns a time-out for init, rounded up; 0 is none.
func inMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// becomeJob makes a running command a job.
func (w *watch) becomeJob(ctx context.Context) error {
	spec := w.rec.GetSpec()
	var change *nodev1.WorkspaceChange
	if w.s.spaces != nil {
		change = w.s.spaces.Detach(ctx, spec.GetJailId(), spec.GetExecId(), nodelink.JobID(spec.GetExecId()), spec.GetSnapshot() && !jobFromStart(spec))
	}
	if ctx.Err() != nil {
		return ctx.Err() // the next daemon does it
	}
	rec, err := w.s.ledger.BecameJob(ctx, spec.GetExecId(), change)
	if err != nil {
		return fmt.Errorf("record that %s became a job: %w", spec.GetExecId(), err)
	}
	w.mu.Lock()
	w.now = asJob(proto.CloneOf(w.now), rec)
	w.mu.Unlock()
	close(w.job)
	return nil
}

// asJob adds to an exec what the ledger has about it as a job.
func asJob(e *nodev1.Exec, rec *nodev1.ExecRecord) *nodev1.Exec {
	e.JobSince, e.Workspace = rec.GetJobSince(), rec.GetWorkspace()
	return e
}

// settled returns the channel that is closed when a caller need wait no longer.
func (w *watch) settled(untilEnd bool) <-chan struct{} {
	if untilEnd {
		return w.done
	}
	return w.job
}
