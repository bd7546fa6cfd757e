// Package initbin embeds the programs that run in jails in the binary of
// deckhand-node: deckhand-init, PID 1 of every jail, and deckhand-skill. A
// build from a clean clone compiles without them, and returns an error that
// says so when one is requested.
package initbin

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed *
var files embed.FS

// The programs.
const (
	Init  = "deckhand-init"
	Skill = "deckhand-skill"
)

// ErrAbsent is returned by a build that does not embed the programs.
var ErrAbsent = errors.New("this build carries no deckhand-init or deckhand-skill: build with make build")

// Extract puts an embedded program below a folder, in a folder named by its
// digest, and returns its path. One that is there already is left alone: jails
// run from it.
func Extract(dir, name string) (string, error) {
	packed, err := files.ReadFile(name + ".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrAbsent
	}
	if err != nil {
		return "", fmt.Errorf("read the embedded %s: %w", name, err)
	}
	unpack, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", name, err)
	}
	raw, err := io.ReadAll(unpack)
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", name, err)
	}
	return install(dir, name, raw)
}

// Present reports whether this build embeds the programs.
func Present() bool {
	for _, name := range []string{Init, Skill} {
		if info, err := fs.Stat(files, name+".gz"); err != nil || info.Size() == 0 {
			return false
		}
	}
	return true
}

// Install does the same with a deckhand-init on disk: a jail continues with the
// one it was made with when that is replaced.
func Install(dir, path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read deckhand-init: %w", err)
	}
	return install(dir, Init, raw)
}

func install(dir, name string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	at := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	path := filepath.Join(at, name)
	if have, err := os.ReadFile(path); err == nil && sha256.Sum256(have) == sum {
		return path, nil
	}
	if err := os.MkdirAll(at, 0o711); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	temp, err := os.CreateTemp(at, "new-")
	if err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
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
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	return path, nil
}
