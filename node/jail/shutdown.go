package jail

import (
	"context"
	"errors"

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
