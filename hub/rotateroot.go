package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/hub/maintenance/rotation"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// RootRotation says which key is to encrypt the keys that seal from now on. It
// works on the database itself, whether hubs run or not.
type RootRotation struct {
	// DataDir and DatabaseURL are Config's.
	DataDir     string        `koanf:"data-dir"`
	DatabaseURL config.Secret `koanf:"database-url"`
	// KeysetKey is the root as it is, as in Config.
	KeysetKey string `koanf:"keyset-key"`
	// NewKeysetKey names the root that takes its place. Empty has a file replaced
	// where it is by one with a new key.
	NewKeysetKey string `koanf:"new-keyset-key"`
}

// RootRotated is what a RootRotation came to.
type RootRotated struct {
	// KeysetKey names the root that opens the database now.
	KeysetKey string
	// Old is the file that the old root was moved to; empty when it stayed.
	Old string
	// Before reports that the database was opened by the new root already.
	Before bool
}

// newSuffix marks the file of a root that is about to take its place. A run that
// was cut short finds it there and goes on with it.
const newSuffix = ".new"

// Run replaces the root. After an error it may be run again.
func (c RootRotation) Run(ctx context.Context) (out RootRotated, err error) {
	from, err := rootURI(c.DataDir, c.KeysetKey)
	if err != nil {
		return out, err
	}
	oldFile, isFile := strings.CutPrefix(from, "file://")
	out.KeysetKey = c.NewKeysetKey
	inPlace := c.NewKeysetKey == ""
	switch {
	case inPlace && !isFile:
		return out, fault.New(fault.Invalid, "new-keyset-key is empty, and the key that is in use is no file that could be replaced").
			WithFix("name the new key with --new-keyset-key")
	case inPlace:
		out.KeysetKey = from + newSuffix
	case c.NewKeysetKey == from:
		return out, fault.New(fault.Invalid, "keyset-key and new-keyset-key name the same key").WithFix("name another with --new-keyset-key")
	}
	if _, err := os.Stat(oldFile); isFile && err != nil {
		return out, fault.New(fault.Precondition, "the key that is in use cannot be read: %v", err).
			WithFix("name it with --keyset-key, or its folder with --data-dir")
	}
	oldRoot, err := vault.OpenRoot(from)
	if err != nil {
		return out, err
	}
	newFile, newIsFile := strings.CutPrefix(out.KeysetKey, "file://")
	_, missing := os.Lstat(newFile)
	newRoot, err := vault.OpenRoot(out.KeysetKey)
	if err != nil {
		return out, err
	}
	if isFile && newIsFile && (inPlace || errors.Is(missing, fs.ErrNotExist)) {
		if err := giveOwner(newFile, oldFile); err != nil {
			return out, err
		}
	}
	replaced, err := c.replace(ctx, oldRoot, newRoot)
	if err != nil {
		return out, err
	}
	out.Before = !replaced
	if inPlace {
		out.KeysetKey = from
		out.Old, err = putInPlace(oldFile)
	}
	return out, err
}

func (c RootRotation) replace(ctx context.Context, from, to vault.Root) (bool, error) {
	st, err := store.Open(ctx, c.DatabaseURL.Reveal())
	if err != nil {
		return false, err
	}
	defer st.Close()
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed machine"
	}
	recorder := event.NewRecorder(event.RecorderConfig{
		Store: st, Redact: &redact.Redactor{}, Notify: func(string, string) {},
	})
	return rotation.ReplaceRoot(ctx, recorder, from, to, "by the command line on "+host)
}

// giveOwner gives a keyset that was just made the owner of the old one: made with sudo, it
// would be root's, and a hub that runs as a user of its own could not read it.
func giveOwner(made, old string) error {
	var want, have unix.Stat_t
	if err := unix.Stat(old, &want); err != nil {
		return fmt.Errorf("look at the owner of %s: %w", old, err)
	}
	// That owner may write to the folder: neither a link in the file's place is followed, nor
	// another name of a file of root's given away.
	file, err := os.OpenFile(made, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("give the new keyset its owner: %w", err)
	}
	err = unix.Fstat(int(file.Fd()), &have) //nolint:gosec // a descriptor
	if err == nil && (have.Uid != want.Uid || have.Gid != want.Gid) {
		if have.Nlink != 1 {
			err = fmt.Errorf("%s has another name", made)
		} else {
			err = file.Chown(int(want.Uid), int(want.Gid))
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fault.New(fault.Precondition, "the new keyset cannot be given to the owner of %s: %v", old, err).
			WithFix("run this as root, or as that owner")
	}
	return nil
}

// putInPlace gives a new root the file of the old one, which is kept beside it:
// backups from before are opened with it.
func putInPlace(path string) (old string, err error) {
	old = path + ".until-" + time.Now().UTC().Format("20060102T150405Z")
	if err := os.Link(path, old); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("keep the old keyset: %w", err)
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return "", fmt.Errorf("put the new keyset in place: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("put the new keyset in place: %w", err)
	}
	return old, errors.Join(dir.Sync(), dir.Close())
}

// rootURI returns the name of the root, which is a file of the data folder where
// nobody names another.
func rootURI(dataDir, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if dataDir == "" {
		return "", fault.New(fault.Invalid, "data-dir is empty").WithFix("name a folder for the keyset, for example /var/lib/deckhand")
	}
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("data-dir: %w", err)
	}
	return "file://" + filepath.Join(dir, keysetFile), nil
}
