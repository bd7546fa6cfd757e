// Package wholefile replaces files so that a crash, of the process or of the machine,
// leaves the old content or the new one, never a part.
//
// The data is written to a new file in the same folder, flushed, renamed, and the folder is
// flushed too. What a crash leaves is a file whose name begins with a dot and the name of
// the file; nothing reads it. With an error the old file is in its place, except that one
// of flushing the folder says only that the rename may not survive the loss of power.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path, or creates it. It is mode, whatever the umask, and
// the folder must exist.
func Write(path string, data []byte, mode fs.FileMode) error {
	// The new file is created, never opened: a link that somebody has laid is not followed.
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temp.Name()) // gone already when all went well
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	if err != nil {
		return fmt.Errorf("flush the folder of %s: %w", path, err)
	}
	return nil
}
