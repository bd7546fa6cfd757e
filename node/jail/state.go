package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/initd"
)

// openState opens the folder in which a jail's init keeps what it writes. An id that no
// jail can have is an error of kind NotFound, a jail without a state os.ErrNotExist.
func (m *Manager) openState(id string) (*os.Root, error) {
	if !jailID.MatchString(id) {
		return nil, notFound(id)
	}
	state, err := os.OpenRoot(m.paths(id).state)
	if err != nil {
		return nil, fmt.Errorf("open the state of jail %s: %w", id, err)
	}
	return state, nil
}

// openInState opens a folder in a jail's state. What is in it was written by the jail's
// init: nothing there leads out of the state. One that is not there is os.ErrNotExist.
func (m *Manager) openInState(id, name string) (*os.Root, error) {
	state, err := m.openState(id)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	dir, err := state.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open %s of jail %s: %w", name, id, err)
	}
	return dir, nil
}

// OpenExec opens the folder with the record, log and end of an exec; see openInState.
func (m *Manager) OpenExec(id, execID string) (*os.Root, error) {
	return m.openInState(id, filepath.Join(initd.ExecsDir, execID))
}

// Outputs opens the folder of the outputs that a jail's commands may read, which it shows
// them at nodelink.OutputsPath; see openInState.
func (m *Manager) Outputs(id string) (*os.Root, error) {
	return m.openInState(id, initd.OutputsDir)
}

// HideOutput removes the output of an exec from those that commands may read. One that is
// not there is removed already.
func (m *Manager) HideOutput(id, execID string) error {
	return m.removeInState(id, filepath.Join(initd.OutputsDir, execID))
}

// RemoveExec deletes the folder of an exec and its output. One that is not there is removed
// already.
func (m *Manager) RemoveExec(id, execID string) error {
	return m.removeInState(id, filepath.Join(initd.OutputsDir, execID), filepath.Join(initd.ExecsDir, execID))
}

func (m *Manager) removeInState(id string, names ...string) error {
	state, err := m.openState(id)
	if errors.Is(err, os.ErrNotExist) || fault.Is(err, fault.NotFound) {
		return nil // of an exec that never had a jail, or whose jail is removed
	}
	if err != nil {
		return err
	}
	defer state.Close()
	for _, name := range names {
		if err := state.RemoveAll(name); err != nil {
			return fmt.Errorf("delete %s of jail %s: %w", name, id, err)
		}
	}
	return nil
}

// layOutOutputs makes the folder of the outputs that commands may read. The state may be of
// an init that is hostile by now: nothing in it is followed.
func (m *Manager) layOutOutputs(p paths, base int) error {
	state, err := os.OpenRoot(p.state)
	if err != nil {
		return fmt.Errorf("open the jail's state: %w", err)
	}
	defer state.Close()
	if err := state.Mkdir(initd.OutputsDir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the folder of outputs: %w", err)
	}
	info, err := state.Lstat(initd.OutputsDir)
	if err == nil && !info.IsDir() {
		err = errors.New("something else is in its place")
	}
	if err == nil {
		err = errors.Join(state.Lchown(initd.OutputsDir, base, base), state.Chmod(initd.OutputsDir, 0o755))
	}
	if err != nil {
		return fmt.Errorf("give the folder of outputs to the jail's init: %w", err)
	}
	return nil
}
