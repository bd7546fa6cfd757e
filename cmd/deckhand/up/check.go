package up

import (
	"context"
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
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

// minFree is how much room the first start needs: a new cluster of PostgreSQL takes 60 MiB,
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
	if err := c.checkRoom(c.Hub.DataDir); err != nil {
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

// checkRoom refuses the first start on a full disk, on which PostgreSQL would fail in the
// middle of a change. It warns only where there is an installation already: that has its
// files, and people need it to make room.
func (c Config) checkRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < minFree {
		if _, err := os.Stat(filepath.Join(dir, formatFile)); err == nil {
			c.Log.Warn("the disk of data-dir is nearly full", "data_dir", dir, "free_mib", free>>20)
			return nil
		}
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

// format is what formatFile holds. The database has the version of its schema itself.
type format struct {
	// Format is that of the folder.
	Format int `json:"format"`
	// Version is the release that wrote it last.
	Version string `json:"version"`
}

// readFormat returns what wrote a data folder; the zero value for a new one, and one of a
// release before the file was written.
func readFormat(dir string) (have format, err error) {
	path := filepath.Join(dir, formatFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil
	}
	if err != nil {
		return have, fmt.Errorf("read the format of data-dir: %w", err)
	}
	if err := json.Unmarshal(text, &have); err != nil {
		return have, fault.New(fault.Precondition, "%s is damaged: %v", path, err).
			WithFix("remove it, if this release or an older one wrote the folder")
	}
	return have, nil
}

// checkFormat refuses a data folder that this release cannot read: one of a newer
// release, or one too old.
func checkFormat(dir string) error {
	have, err := readFormat(dir)
	switch {
	case err != nil:
		return err
	case have == format{}:
		return nil
	case have.Format > newestFormat:
		return fault.New(fault.Precondition, "data-dir %s was written by a newer release, Deckhand %s (format %d); this is %s, which reads formats to %d",
			dir, have.Version, have.Format, version.Version, newestFormat).
			WithFix("install Deckhand %s or later; to go back to %s, restore the backup from before the upgrade into an empty folder (deckhand backup restore --data-dir)", have.Version, version.Version)
	case have.Format < oldestFormat:
		return fault.New(fault.Precondition, "data-dir %s was written by an old release, Deckhand %s (format %d); this is %s, which reads formats %d to %d",
			dir, have.Version, have.Format, version.Version, oldestFormat, newestFormat).
			WithFix("start a release between the two on it first: docs/upgrade.md says which")
	}
	return nil
}

// checkSchema refuses a database that a newer release has changed, wherever it is: this
// one may damage it. Hubs that run apart are not refused so, since two releases share
// their database during an upgrade.
func checkSchema(ctx context.Context, url, dir string) error {
	have, err := store.SchemaOf(ctx, url)
	if err != nil {
		return err
	}
	latest, err := store.Latest()
	if err != nil {
		return err
	}
	if have <= latest {
		return nil
	}
	release := "a newer release"
	if last, err := readFormat(dir); err == nil && last.Version != "" && last.Version != version.Version {
		release += ", Deckhand " + last.Version
	}
	return fault.New(fault.Precondition, "the database was changed by %s (schema %d); this is Deckhand %s (schema %d)", release, have, version.Version, latest).
		WithFix("install that release again; to go back to %s, restore the backup from before the upgrade into an empty folder (deckhand backup restore --data-dir)", version.Version)
}

// writeFormat notes that this release writes the data folder from now on.
func writeFormat(dir string) error {
	text, err := json.Marshal(format{Format: newestFormat, Version: version.Version})
	if err != nil {
		return err
	}
	if err := wholefile.Write(filepath.Join(dir, formatFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("note the format of data-dir: %w", err)
	}
	return nil
}
