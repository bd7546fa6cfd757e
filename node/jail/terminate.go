package jail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// shimPatience is how long a shim may take to report the end of a process that has
// ended. One that has to wait for hundreds of processes at once, as gVisor's platform
// ptrace leaves them, may never do so: containerd 1.6's blocks.
const shimPatience = 2 * time.Second

// terminate ends a task in good order, and by force if it does not end.
func (m *Manager) terminate(ctx context.Context, task client.Task, exited <-chan client.ExitStatus) error {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		err := task.Kill(ctx, sig)
		if errdefs.IsNotFound(err) {
			return nil // ended already, whether anybody saw it or not
		}
		if err != nil {
			return fmt.Errorf("signal the jail's init: %w", err)
		}
		if sig == unix.SIGKILL {
			// A kernel of the jail's own that hangs passes no signal on to init. Its
			// process is the task's, and still the shim's to reap.
			_ = unix.Kill(int(task.Pid()), sig)
		}
		patient, cancel := context.WithTimeout(ctx, stopPatience)
		over, err := m.awaitExit(patient, task, exited)
		cancel()
		if err != nil || over {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.New("the jail's init outlived SIGKILL")
}

// awaitExit reports whether a task has ended before ctx does. A shim that does not
// report it is ended, and containerd clears what it had.
func (m *Manager) awaitExit(ctx context.Context, task client.Task, exited <-chan client.ExitStatus) (bool, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-exited:
			return true, nil
		case <-ctx.Done():
			return false, nil
		case <-tick.C:
		}
		switch {
		case !ended(int32(task.Pid())): //nolint:gosec // a PID
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > shimPatience:
			return m.endShim(ctx, task, tick.C)
		}
	}
}

// endShim ends the shim of a task, and reports whether containerd has cleared the
// task before ctx ends.
func (m *Manager) endShim(ctx context.Context, task client.Task, tick <-chan time.Time) (bool, error) {
	all, err := runningShims()
	if err != nil {
		return false, err
	}
	for _, one := range all {
		if one.container != task.ID() || one.namespace != m.cfg.Namespace {
			continue
		}
		if err := one.kill(); err != nil {
			return false, fmt.Errorf("end the shim of the container %s: %w", one.container, err)
		}
		m.cfg.Log.Warn("ended a shim that did not report the end of its jail", "container_id", one.container)
	}
	for {
		if _, err := task.Status(ctx); errdefs.IsNotFound(err) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-tick:
		}
	}
}
