package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// paths are where a jail's parts are on the host.
type paths struct {
	dir       string // of the jail; what is named here is below it but for the workspace
	record    string
	rootfs    string
	state     string // bind-mounted into the jail, for init alone
	log       string // of init itself
	workspace string
	image     string // holds the workspace's file system
	layer     string // what commands changed of a writable root
	layerFile string // holds the layer's file system
	cgroup    string // of host mode: where it was last
	shown     string // what it is shown of the machine, while it is made
	trust     string // certificates that its programs trust
	bridge    string // named pipes to a jail with a kernel of its own
}

func (m *Manager) paths(id string) paths {
	dir := filepath.Join(m.cfg.DataDir, "jails", id)
	return paths{
		dir:       dir,
		record:    filepath.Join(dir, "record"),
		rootfs:    filepath.Join(dir, "rootfs"),
		state:     filepath.Join(dir, "state"),
		log:       filepath.Join(dir, "init.log"),
		workspace: filepath.Join(m.cfg.DataDir, "workspaces", id),
		image:     filepath.Join(dir, "workspace.ext4"),
		layer:     filepath.Join(dir, "layer"),
		layerFile: filepath.Join(dir, "layer.ext4"),
		cgroup:    filepath.Join(dir, "cgroup"),
		shown:     filepath.Join(dir, "shown"),
		trust:     filepath.Join(dir, "trust"),
		bridge:    filepath.Join(dir, "bridge"),
	}
}

// readRecord returns a jail's record; nil when there is no such jail.
func readRecord(path string) (*nodev1.JailRecord, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the jail's record: %w", err)
	}
	rec := &nodev1.JailRecord{}
	if err := proto.Unmarshal(raw, rec); err != nil || rec.GetSpec() == nil {
		return nil, fmt.Errorf("the jail's record %s is damaged; remove the jail, or the file: %w", path, errors.Join(err, os.ErrInvalid))
	}
	return rec, nil
}

// writeRecord puts a record on disk in one piece, flushed, and on a full disk
// as well: what a jail is to be must be possible to say then too.
func (m *Manager) writeRecord(path string, rec *nodev1.JailRecord) error {
	raw, err := proto.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode the jail's record: %w", err)
	}
	if err := m.cfg.Reserve.WithReserve(func() error { return writeFile(path, raw, 0o600) }); err != nil {
		return fmt.Errorf("write the jail's record: %w", err)
	}
	return nil
}

// writeFile puts a file on disk in one piece, flushed.
func writeFile(path string, raw []byte, mode os.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone already when all went well
	_, err = temp.Write(raw)
	if cerr := temp.Chmod(mode); err == nil {
		err = cerr
	}
	if serr := temp.Sync(); err == nil {
		err = serr
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	return err
}

// removeParts removes what writeFile left of a file when the daemon died.
func removeParts(path string) error {
	parts, err := filepath.Glob(path + "-*")
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
