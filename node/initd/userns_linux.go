package initd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holdNamespace is the argument of a short-lived process in a new user namespace.
const holdNamespace = "--hold-namespace"

// rootCapabilities are those of commands that run as root: what a package manager needs
// to install files. no_new_privs, which every jail has, keeps programs from having more.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// asRoot returns how init runs commands as root.
func asRoot() (commands, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return commands{}, err
	}
	last, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 6)
	if err != nil {
		return commands{}, fmt.Errorf("read the kernel's last capability: %w", err)
	}
	namespace, err := makeUserNamespace()
	return commands{namespace: namespace, lastCapability: uintptr(last)}, err
}

// makeUserNamespace returns a user namespace below init's own in which all of init's ids
// are mapped to themselves but init's own. A process makes it, and may end: the open file
// keeps it.
func makeUserNamespace() (_ *os.File, err error) {
	end, keep, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: RootInit}}
	holder, err := os.StartProcess("/proc/self/exe", []string{"deckhand-init", holdNamespace}, &os.ProcAttr{
		Files: []*os.File{end, os.Stderr, os.Stderr},
		Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true},
	})
	if err != nil {
		return nil, errors.Join(err, end.Close(), keep.Close())
	}
	defer func() {
		err = errors.Join(err, end.Close(), keep.Close())
		_, werr := holder.Wait()
		err = errors.Join(err, werr)
	}()
	at, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	// Out of the way of what a stub numbers itself.
	fd, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "user namespace"), nil
}

// hold waits for the end of its input.
func hold() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// capHeader and the sets after it are arguments of capset(2): effective, permitted and
// inheritable capabilities, twice.
var (
	capHeader = &[2]uint32{unix.LINUX_CAPABILITY_VERSION_3, 0}
	rootSets  = &[6]uint32{rootCapabilities, rootCapabilities}
	noSets    = &[6]uint32{}
)

// become returns the system calls with which a command gives up init's user for its own.
func (c commands) become(uid, gid uintptr) (calls []systemCall) {
	add := func(number uintptr, args ...uintptr) {
		call := systemCall{number: number}
		copy(call.args[:], args)
		calls = append(calls, call)
	}
	if c.namespace != nil {
		// With all rights there, and none outside.
		add(unix.SYS_SETNS, namespaceFD, unix.CLONE_NEWUSER)
		for n := uintptr(0); n <= c.lastCapability; n++ {
			if rootCapabilities&(1<<n) == 0 {
				add(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, n)
			}
		}
	}
	add(unix.SYS_SETGROUPS)
	add(unix.SYS_SETRESGID, gid, gid, gid)
	add(unix.SYS_SETRESUID, uid, uid, uid)
	if c.namespace != nil {
		sets := noSets
		if uid == 0 {
			sets = rootSets
		}
		add(unix.SYS_CAPSET, uintptr(unsafe.Pointer(capHeader)), uintptr(unsafe.Pointer(sets))) //nolint:gosec // both are of this package and stay
	}
	return calls
}

// mayBeRoot reports whether a command may run as user 0.
func (s *server) mayBeRoot() bool { return s.host || s.commands.namespace != nil }

// commands says how init runs commands in a jail.
type commands struct {
	// namespace is the user namespace that they run in; nil for init's own.
	namespace *os.File
	// lastCapability is the highest that the kernel knows.
	lastCapability uintptr
}

// fd returns the descriptor of the commands' user namespace; 0 for init's own.
func (c commands) fd() uintptr {
	if c.namespace == nil {
		return 0
	}
	return fdOf(c.namespace)
}
