// Package initbin carries deckhand-init, PID 1 of every jail, in the binary of
// deckhand-node. A build from a clean clone compiles without it and says so
// when it is asked for it.
package initbin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed *
var files embed.FS

// Name of the binary.
const Name = "deckhand-init"

// ErrAbsent is answered by a build that carries no deckhand-init.
var ErrAbsent = errors.New("this build carries no deckhand-init: build with make build")

// Extract puts the embedded binary below a folder, in a folder named by its
// digest, and answers its path. One that is there already is left alone: jails
// run from it.
func Extract(dir string) (string, error) {
	raw, err := files.ReadFile(Name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrAbsent
	}
	if err != nil {
		return "", fmt.Errorf("read the embedded deckhand-init: %w", err)
	}
	return install(dir, raw)
}

// Present says whether this build carries deckhand-init.
func Present() bool {
	info, err := fs.Stat(files, Name)
	return err == nil && info.Size() > 0
}

// Install does the same with a binary on disk: a jail goes on with the one it
// was made with when that is replaced.
func Install(dir, path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read deckhand-init: %w", err)
	}
	return install(dir, raw)
}

func install(dir string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	at := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	path := filepath.Join(at, Name)
	if have, err := os.ReadFile(path); err == nil && sha256.Sum256(have) == sum {
		return path, nil
	}
	if err := os.MkdirAll(at, 0o711); err != nil {
		return "", fmt.Errorf("install deckhand-init: %w", err)
	}
	temp, err := os.CreateTemp(at, "new-")
	if err != nil {
		return "", fmt.Errorf("install deckhand-init: %w", err)
	}
	defer os.Remove(temp.Name()) // gone already when all went well
	_, err = temp.Write(raw)
	if cerr := temp.Chmod(0o755); err == nil {
		err = cerr
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("install deckhand-init: %w", err)
	}
	return path, nil
}
