package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	port       = 5432
	socketName = ".s.PGSQL.5432"
	// maxSocketDir keeps the socket's path below sockaddr_un's 108 bytes.
	maxSocketDir = 100 - len("/"+socketName)
)

// owner is the user that the cluster runs as and that owns its files.
type owner struct {
	name     string
	uid, gid int
	// credential is nil when the owner is the caller.
	credential *syscall.Credential
}

func ownerOf(runAs string) (owner, error) {
	if os.Geteuid() != 0 {
		me, err := user.Current()
		if err != nil {
			return owner{}, fmt.Errorf("find out who runs this: %w", err)
		}
		return owner{name: me.Username, uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	if runAs == "" {
		runAs = "postgres"
	}
	u, err := user.Lookup(runAs)
	if err != nil {
		return owner{}, fault.New(fault.Precondition, "PostgreSQL does not run as root and there is no user %s", runAs).
			WithFix("apt-get install postgresql, which makes the user postgres").WithCause(err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return owner{}, fmt.Errorf("user %s: %w", runAs, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return owner{}, fmt.Errorf("user %s: %w", runAs, err)
	}
	return owner{
		name: runAs, uid: int(uid), gid: int(gid),
		credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}, nil
}

// makeDir creates a folder that the owner owns.
func (o owner) makeDir(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chown(path, o.uid, o.gid)
}

// writeFile replaces a file of the owner's whole, so that a crash leaves the
// old text or the new. The folder is the owner's, who might have laid a link
// in it: root must create what it writes to, never open it.
func (o owner) writeFile(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // O_EXCL, 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chown(o.uid, o.gid), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// mustReach returns an error that names the folder on the way to path, if any, that the
// owner cannot enter.
func (o owner) mustReach(path string) error {
	if o.credential == nil {
		return nil
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look at the way to the PostgreSQL data folder: %w", err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("look at the way to the PostgreSQL data folder: no owner known for %s", dir)
		}
		bit := os.FileMode(0o001)
		switch {
		case int(stat.Uid) == o.uid:
			bit = 0o100
		case int(stat.Gid) == o.gid:
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return fault.New(fault.Precondition, "user %s, whom PostgreSQL runs as, cannot pass through %s", o.name, dir).
				WithFix("chmod o+x %s, or choose another data folder", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// makeSocketDir returns the folder of the cluster's socket: below the data folder, or, if
// that path is too long for a socket, a short one that is derived from it, so that the
// next start uses the same.
func makeSocketDir(dataDir string, o owner) (string, error) {
	dir := filepath.Join(dataDir, "run")
	if len(dir) > maxSocketDir {
		sum := sha256.Sum256([]byte(dataDir))
		base := "/run"
		if os.Geteuid() != 0 {
			base = os.TempDir()
		}
		dir = filepath.Join(base, "deckhand-pg-"+hex.EncodeToString(sum[:6]))
		if len(dir) > maxSocketDir {
			dir = filepath.Join("/tmp", filepath.Base(dir))
		}
	}
	if err := o.makeDir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make the folder of PostgreSQL's socket: %w", err)
	}
	// In a folder that others may write to, another user could have created it.
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("make the folder of PostgreSQL's socket: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && info.IsDir() && stat.Uid == 0 && o.credential != nil {
		// Ours, made by a start that was killed before it gave it away.
		if err := os.Chown(dir, o.uid, o.gid); err != nil {
			return "", fmt.Errorf("make the folder of PostgreSQL's socket: %w", err)
		}
		return dir, nil
	}
	if !ok || !info.IsDir() || int(stat.Uid) != o.uid || info.Mode().Perm()&0o022 != 0 {
		return "", fault.New(fault.Precondition, "%s is not a folder of user %s alone", dir, o.name).
			WithFix("remove it")
	}
	return dir, nil
}
