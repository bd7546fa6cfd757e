// Package initbin embeds the programs that run in jails in the binary of
// deckhand-node: deckhand-init, PID 1 of every jail, and deckhand-skill. A
// build from a clean clone compiles without them, and returns an error that
// says so when one is requested.
package initbin

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

//go:embed *
var files embed.FS

// packed has the programs as a tar archive, compressed with zstd: together, since they
// share most of Go's runtime. scripts/build-init writes it.
const packed = "programs.tar.zst"

// The programs.
const (
	Init  = "deckhand-init"
	Skill = "deckhand-skill"
)

// ErrAbsent is returned by a build that does not embed the programs.
var ErrAbsent = errors.New("this build carries no deckhand-init or deckhand-skill: build with make build")

// Extract puts the embedded programs below a folder, each in a folder named by its
// digest, and returns their paths. One that is there already is left alone: jails run
// from it.
func Extract(dir string) (initPath, skillPath string, err error) {
	raw, err := files.ReadFile(packed)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", ErrAbsent
	}
	if err != nil {
		return "", "", fmt.Errorf("read the embedded programs: %w", err)
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return "", "", fmt.Errorf("unpack the programs: %w", err)
	}
	defer unpack.Close()
	if raw, err = unpack.DecodeAll(raw, nil); err != nil {
		return "", "", fmt.Errorf("unpack the programs: %w", err)
	}
	paths := map[string]string{}
	for archive := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", "", fmt.Errorf("unpack the programs: %w", err)
		}
		program, err := io.ReadAll(archive)
		if err != nil {
			return "", "", fmt.Errorf("unpack %s: %w", header.Name, err)
		}
		if paths[header.Name], err = install(dir, header.Name, program); err != nil {
			return "", "", err
		}
	}
	if paths[Init] == "" || paths[Skill] == "" {
		return "", "", ErrAbsent
	}
	return paths[Init], paths[Skill], nil
}

// Present reports whether this build embeds the programs.
func Present() bool {
	info, err := fs.Stat(files, packed)
	return err == nil && info.Size() > 0
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
