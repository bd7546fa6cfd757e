package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/listenaddr"
	"github.com/deckhand-sh/deckhand/internal/version"
)

// minFree is how much room a start needs: a new cluster of PostgreSQL takes 60 MiB,
// and its log of changes up to 512 MiB later.
const minFree = 512 << 20

// checkMachine finds what would keep up from starting, before anything is started.
func (c Config) checkMachine() error {
	addresses := []struct{ field, address string }{
		{"listen", c.Hub.Listen}, {"edge-listen", c.Hub.EdgeListen}, {"metrics-listen", c.Hub.MetricsListen}, {"nats-listen", c.Hub.NATSListen},
	}
	for _, a := range addresses {
		if err := hub.CheckAddress(a.field, a.address); err != nil {
			return err
		}
	}
	if err := checkFormat(c.Hub.DataDir); err != nil {
		return err
	}
	if err := checkRoom(c.Hub.DataDir); err != nil {
		return err
	}
	for _, a := range addresses {
		if err := listenaddr.Probe(a.field, a.address); err != nil {
			return err
		}
	}
	return nil
}

// CheckOwner refuses a data folder that another user may change: root reads keys
// there and starts programs from it.
func CheckOwner(dir string) error {
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil {
		return fmt.Errorf("look at data-dir %s: %w", dir, err)
	}
	const writableByOthers = 0o022
	switch {
	case info.Uid != 0:
		return fault.New(fault.Precondition, "data-dir %s belongs to the user %s, not to root", dir, userName(info.Uid)).
			WithFix("if it is Deckhand's: chown root:root %s; else choose another folder with --data-dir", dir)
	case info.Mode&writableByOthers != 0:
		return fault.New(fault.Precondition, "data-dir %s can be written by users other than root (mode %04o)", dir, info.Mode&0o7777).
			WithFix("chmod go-w %s, or choose another folder with --data-dir", dir)
	}
	return nil
}

// userName returns the name of a user, or the number where the machine has none.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if known, err := user.LookupId(id); err == nil {
		return known.Username
	}
	return id
}

// checkRoom refuses to start on a full disk, on which PostgreSQL would fail in the
// middle of a change.
func checkRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < minFree {
		return fault.New(fault.Precondition, "the disk of data-dir %s is full: %d MiB are free, and a start needs %d MiB", dir, free>>20, minFree>>20).
			WithFix("make room (du -xh %s | sort -h shows what takes it), or move the folder to a larger disk and name it with --data-dir", dir)
	}
	return nil
}

// formatFile says which release wrote a data folder.
const formatFile = "format.json"

// The formats of the data folder that this release reads. A change of what stands
// where, that an older release cannot read, raises the newest.
const (
	oldestFormat = 1
	newestFormat = 1
)

// format is what formatFile holds.
type format struct {
	// Format is that of the folder, and Schema that of its database.
	Format int   `json:"format"`
	Schema int64 `json:"schema"`
	// Version is the release that wrote it last.
	Version string `json:"version"`
}

// checkFormat refuses a data folder that this release cannot read: one of a newer
// release, whose database an older one may damage, or of one too old.
func checkFormat(dir string) error {
	path := filepath.Join(dir, formatFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // new, or of a release before the file was written
	}
	if err != nil {
		return fmt.Errorf("read the format of data-dir: %w", err)
	}
	var have format
	if err := json.Unmarshal(text, &have); err != nil {
		return fault.New(fault.Precondition, "%s is damaged: %v", path, err).
			WithFix("restore it from a backup, or remove it if this release wrote the folder")
	}
	latest, err := store.Latest()
	if err != nil {
		return err
	}
	switch {
	case have.Format > newestFormat || have.Schema > latest:
		return fault.New(fault.Precondition, "data-dir %s was written by a newer release, Deckhand %s (format %d, schema %d); this is %s (format %d, schema %d)",
			dir, have.Version, have.Format, have.Schema, version.Version, newestFormat, latest).
			WithFix("install Deckhand %s or later; to go back to %s, restore the backup from before the upgrade", have.Version, version.Version)
	case have.Format < oldestFormat:
		return fault.New(fault.Precondition, "data-dir %s was written by an old release, Deckhand %s (format %d); this is %s, which reads formats %d to %d",
			dir, have.Version, have.Format, version.Version, oldestFormat, newestFormat).
			WithFix("start a release between the two on it first: docs/upgrade.md says which")
	}
	return nil
}

// writeFormat notes that this release has written the data folder.
func writeFormat(dir string) error {
	latest, err := store.Latest()
	if err != nil {
		return err
	}
	text, err := json.Marshal(format{Format: newestFormat, Schema: latest, Version: version.Version})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, formatFile)
	// Renamed into place: a crash leaves the old text or the new.
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("note the format of data-dir: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("note the format of data-dir: %w", err)
	}
	return nil
}
