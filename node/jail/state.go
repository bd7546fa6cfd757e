package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deckhand-sh/deckhand/node/initd"
)

// OpenExec opens the folder with the record, log and end of an exec. What is in
// it was written by the jail's init: nothing there leads out of the jail's
// state. An exec that has none is os.ErrNotExist.
func (m *Manager) OpenExec(id, execID string) (*os.Root, error) {
	if !jailID.MatchString(id) {
		return nil, notFound(id)
	}
	state, err := os.OpenRoot(m.paths(id).state)
	if err != nil {
		return nil, fmt.Errorf("open the state of jail %s: %w", id, err)
	}
	defer state.Close()
	dir, err := state.OpenRoot(filepath.Join(initd.ExecsDir, execID))
	if err != nil {
		return nil, fmt.Errorf("open the folder of exec %s: %w", execID, err)
	}
	return dir, nil
}

// Outputs opens the folder of the outputs that a jail's commands may read; see
// nodelink.OutputsPath. What is in it was written by the jail's init.
func (m *Manager) Outputs(id string) (*os.Root, error) {
	if !jailID.MatchString(id) {
		return nil, notFound(id)
	}
	state, err := os.OpenRoot(m.paths(id).state)
	if err != nil {
		return nil, fmt.Errorf("open the state of jail %s: %w", id, err)
	}
	defer state.Close()
	dir, err := state.OpenRoot(initd.OutputsDir)
	if err != nil {
		return nil, fmt.Errorf("open the outputs of jail %s: %w", id, err)
	}
	return dir, nil
}

// HideOutput removes the output of an exec from those that commands may read. One that is
// not there is removed already.
func (m *Manager) HideOutput(id, execID string) error {
	dir, err := m.Outputs(id)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Remove(execID); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the output of exec %s: %w", execID, err)
	}
	return nil
}

// RemoveExec deletes the folder of an exec. One that is not there is removed
// already.
func (m *Manager) RemoveExec(id, execID string) error {
	if !jailID.MatchString(id) {
		return nil // of an exec that never had a jail
	}
	if err := m.HideOutput(id, execID); err != nil {
		return err
	}
	state, err := os.OpenRoot(m.paths(id).state)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the state of jail %s: %w", id, err)
	}
	defer state.Close()
	if err := state.RemoveAll(filepath.Join(initd.ExecsDir, execID)); err != nil {
		return fmt.Errorf("delete the folder of exec %s: %w", execID, err)
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
	err = state.Mkdir(initd.OutputsDir, 0o755)
	if errors.Is(err, os.ErrExist) {
		info, err := state.Lstat(initd.OutputsDir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no folder", initd.OutputsDir)
		}
		if err != nil {
			return fmt.Errorf("make the folder of outputs: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("make the folder of outputs: %w", err)
	}
	if err := errors.Join(state.Lchown(initd.OutputsDir, base, base), state.Chmod(initd.OutputsDir, 0o755)); err != nil {
		return fmt.Errorf("give the folder of outputs to the jail's init: %w", err)
	}
	return nil
}
