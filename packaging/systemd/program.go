package systemd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// CheckProgram refuses a program that a service of root must not run, because another user
// can replace it: the file or a folder above it belongs to somebody else, or others may write
// to it. Who can replace the program of such a service is root at its next start. The group of
// root may write. Symbolic links are followed.
func CheckProgram(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("find the program %s: %w", path, err)
	}
	for part := real; ; part = filepath.Dir(part) {
		info, err := os.Lstat(part)
		if err != nil {
			return fmt.Errorf("look who owns the program: %w", err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		switch mode := info.Mode(); {
		case !ok:
			return fmt.Errorf("look who owns %s: the system does not say", part)
		case stat.Uid != 0:
			return replaceable(real, "%s belongs to the user with id %d", part, stat.Uid)
		// In a sticky folder, such as /tmp, nobody can replace what belongs to root.
		case writable(mode, stat.Gid) && mode.IsDir() && mode&fs.ModeSticky == 0:
			return refuse(real, "others than its owner may write to %s (mode %04o)", part, mode.Perm()).
				WithFix("take that from them: chmod g-w,o-w %s", part)
		case writable(mode, stat.Gid) && !mode.IsDir():
			return replaceable(real, "others than its owner may write to %s (mode %04o)", part, mode.Perm())
		}
		if part == filepath.Dir(part) {
			return nil
		}
	}
}

// writable reports whether others than root and its group may write.
func writable(mode fs.FileMode, group uint32) bool {
	return mode.Perm()&0o002 != 0 || mode.Perm()&0o020 != 0 && group != 0
}

func refuse(program, format string, args ...any) *fault.Error {
	return fault.New(fault.Precondition, "the service would run %s as root, and another user can replace it: %s", program, fmt.Sprintf(format, args...))
}

func replaceable(program, format string, args ...any) error {
	return refuse(program, format, args...).
		WithFix("install the package, or a copy that only root can write: install -o root -g root -m 0755 %s /usr/local/bin/%s, then run it from there", program, filepath.Base(program))
}
