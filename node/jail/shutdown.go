package jail

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Shutdown stops every jail and unmounts its workspace, so that nothing of the
// node is left on the machine but its files. A jail that is wanted again is
// woken by the next Ensure.
func (m *Manager) Shutdown(ctx context.Context) error {
	jails, err := m.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, j := range jails {
		id := j.GetJailId()
		if j.GetState() == nodev1.JailState_JAIL_STATE_RUNNING {
			if _, err := m.Stop(ctx, id); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := m.unmount(id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) unmount(id string) error {
	p, _, err := m.known(id)
	if err != nil {
		return err
	}
	e := m.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	mounted, err := isMountPoint(p.workspace)
	if err != nil || !mounted {
		return err
	}
	if err := mount.UnmountAll(p.workspace, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount the workspace of %s: %w", id, err)
	}
	return nil
}
