package restore

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// Attributed is something open whose extended attributes are read and set.
type Attributed struct {
	list   func(dest []byte) (int, error)
	get    func(name string, dest []byte) (int, error)
	set    func(name string, value []byte) error
	remove func(name string) error
}

// Attributes returns the attributes of an open file or folder.
func Attributes(f *os.File) Attributed {
	fd := int(f.Fd())
	return Attributed{
		list:   func(dest []byte) (int, error) { return unix.Flistxattr(fd, dest) },
		get:    func(name string, dest []byte) (int, error) { return unix.Fgetxattr(fd, name, dest) },
		set:    func(name string, value []byte) error { return unix.Fsetxattr(fd, name, value, 0) },
		remove: func(name string) error { return unix.Fremovexattr(fd, name) },
	}
}

// LinkAttributes returns the attributes of a symbolic link that was opened with O_PATH, for
// which the kernel has no calls by descriptor. Its path in /proc is the link itself, and is not
// followed further.
func LinkAttributes(f *os.File) Attributed {
	path := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	return Attributed{
		list:   func(dest []byte) (int, error) { return unix.Listxattr(path, dest) },
		get:    func(name string, dest []byte) (int, error) { return unix.Getxattr(path, name, dest) },
		set:    func(name string, value []byte) error { return unix.Setxattr(path, name, value, 0) },
		remove: func(name string) error { return unix.Removexattr(path, name) },
	}
}

// recorded reports whether an attribute is recorded and restored. Jails set the first two kinds
// only. The kernel computes security.evm itself, from the other attributes.
func recorded(name string, host bool) bool {
	if strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_") {
		return true
	}
	return host && isPrivileged(name) && name != "security.evm"
}

// isPrivileged reports whether only root sets an attribute.
func isPrivileged(name string) bool {
	return strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "trusted.")
}

func privileged(e *tree.Entry) bool {
	for name := range e.Xattrs {
		if isPrivileged(name) {
			return true
		}
	}
	return false
}

func setXattrs(of Attributed, want map[string]string, host bool) error {
	have, err := Xattrs(of, host)
	if err != nil {
		return err
	}
	for name := range have {
		if _, ok := want[name]; ok {
			continue
		}
		err := of.remove(name)
		if isPrivileged(name) && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
			continue // a label that the kernel gives every file, and that none can be without
		}
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("remove the attribute %q: %w", name, err)
		}
	}
	for name, value := range want {
		if got, ok := have[name]; ok && got == value {
			continue
		}
		if err := of.set(name, []byte(value)); err != nil {
			return fmt.Errorf("set the attribute %q: %w", name, err)
		}
	}
	return nil
}

// CopyXattrs gives a new file of the machine the attributes of the one that it replaces. It has
// no capabilities, which the kernel takes from a file that is written to.
func CopyXattrs(from, to *os.File) error {
	all, err := Xattrs(Attributes(from), true)
	if err != nil {
		return err
	}
	delete(all, "security.capability")
	delete(all, "security.ima") // is of the content
	return setXattrs(Attributes(to), all, true)
}

// Xattrs returns the extended attributes that are recorded: those that a jail may set, and with
// host those of the machine's own files as well. It returns nil where the file system has none.
func Xattrs(of Attributed, host bool) (map[string]string, error) {
	// Most have none, for which no room is needed.
	size, err := of.list(nil)
	if errors.Is(err, unix.EOPNOTSUPP) || err == nil && size == 0 {
		return nil, nil
	}
	buf := make([]byte, 64<<10)
	if err == nil {
		size, err = of.list(buf)
	}
	if err != nil {
		return nil, fmt.Errorf("list the attributes: %w", err)
	}
	var out map[string]string
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:size]), "\x00"), "\x00") {
		if !recorded(name, host) {
			continue
		}
		n, err := of.get(name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the attribute %q: %w", name, err)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = string(value[:n])
	}
	return out, nil
}
