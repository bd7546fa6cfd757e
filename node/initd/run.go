package initd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/node/execlog"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// run is one exec, from its spawn to its end.
type run struct {
	ready chan struct{} // closed when it has been spawned, or could not be
	done  chan struct{} // closed when the whole tree has ended and exit is written

	mu     sync.Mutex
	status *initv1.Status // guarded by mu

	// Set before ready is closed, then only read.
	refused error // why it is no run after all
	dir     string
	stub    *stub // nil when there was none
	log     *execlog.Writer
	outs    []output
	pty     *os.File // nil without a terminal
	input   *input   // nil without input
	copies  sync.WaitGroup
}

// snapshot returns the status in its current state.
func (r *run) snapshot() *initv1.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := proto.CloneOf(r.status)
	if !s.GetEnded() && r.log != nil {
		s.LogBytes, s.LogDropped, s.StdinBytes = r.log.Size(), r.log.Dropped(), r.input.given()
	}
	return s
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// mark changes the status of a run that has not ended.
func (r *run) mark(change func(s *initv1.Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.status.GetEnded() {
		change(r.status)
	}
}

// command is what a stub is to start, as the kernel takes it.
type command struct {
	paths      []*byte
	argv, envv **byte
	dir        *byte
	become     []systemCall
}

// newCommand lays out a request for a stub.
func (c commands) newCommand(req *initv1.StartRequest) (out command, err error) {
	term := "dumb"
	if req.GetPtyRows() > 0 {
		term = "xterm-256color"
	}
	env := MergeEnv(baseEnv(term), req.GetEnv())
	dir := req.GetDir()
	if dir == "" {
		dir = Workspace
	}
	env = MergeEnv([]string{"PWD=" + dir}, env)
	out.become = c.become(uintptr(req.GetUid()), uintptr(req.GetGid()))
	if out.dir, err = syscall.BytePtrFromString(dir); err != nil {
		return out, fmt.Errorf("dir: %w", err)
	}
	argv, err := syscall.SlicePtrFromStrings(req.GetArgv())
	if err != nil {
		return out, fmt.Errorf("argv: %w", err)
	}
	envv, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return out, fmt.Errorf("env: %w", err)
	}
	out.argv, out.envv = &argv[0], &envv[0]
	for _, candidate := range candidates(req.GetArgv()[0], env) {
		ptr, err := syscall.BytePtrFromString(candidate)
		if err != nil {
			return out, fmt.Errorf("argv: %w", err)
		}
		out.paths = append(out.paths, ptr)
	}
	return out, nil
}

// fdOf returns a file's descriptor, which stays as blocking as it is: of these
// only the command's ends are asked for, and they do block.
func fdOf(f *os.File) uintptr {
	conn, err := f.SyscallConn()
	if err != nil {
		return ^uintptr(0)
	}
	fd := ^uintptr(0)
	_ = conn.Control(func(n uintptr) { fd = n })
	return fd
}

func maxFD() uintptr {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<20 {
		return 1 << 20
	}
	return uintptr(limit.Cur)
}

// MergeEnv returns base with the variables of over instead of its own.
func MergeEnv(base, over []string) []string {
	set := map[string]bool{}
	for _, entry := range over {
		name, _, _ := strings.Cut(entry, "=")
		set[name] = true
	}
	var out []string
	for _, entry := range base {
		if name, _, _ := strings.Cut(entry, "="); !set[name] {
			out = append(out, entry)
		}
	}
	return append(out, over...)
}

// candidates returns where a program may be, in the order of PATH.
func candidates(program string, env []string) []string {
	if strings.Contains(program, "/") {
		return []string{program}
	}
	var list string
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			list = value
		}
	}
	var out []string
	for _, dir := range filepath.SplitList(list) {
		if dir == "" {
			dir = "."
		}
		// Not cleaned: "." must stay a path.
		out = append(out, dir+"/"+program)
	}
	return out
}

// startError says in a person's words why a command could not be started.
func startError(req *initv1.StartRequest, step int, errno syscall.Errno) string {
	switch step {
	case stepDir:
		dir := req.GetDir()
		if dir == "" {
			dir = Workspace
		}
		return fmt.Sprintf("the folder %s: %s", dir, errno.Error())
	case stepUser:
		return "become the jail's user: " + errno.Error()
	case stepFork:
		if errno == unix.EAGAIN {
			return "the jail has no process left: it is at its limit of pids"
		}
		return "fork: " + errno.Error()
	}
	name := req.GetArgv()[0]
	switch {
	case errno == unix.ENOENT && !strings.Contains(name, "/"):
		return fmt.Sprintf("%s: command not found", name)
	case errno == unix.E2BIG, errno == unix.ENAMETOOLONG && len(name) < unix.PathMax: // as gVisor says it
		return fmt.Sprintf("%s: the arguments and environment are longer than the kernel takes", path.Base(name))
	case errno == unix.ENOEXEC:
		return fmt.Sprintf("%s: not a program the kernel can run; does it begin with #! ?", name)
	}
	return fmt.Sprintf("%s: %s", name, errno.Error())
}

// readReport reads the stub's next report; io.EOF when there will be none.
func readReport(f *os.File) (report, error) {
	var buf [reportSize]byte
	if _, err := io.ReadFull(f, buf[:]); err != nil {
		return report{}, err
	}
	return report{
		kind:  reportKind(binary.NativeEndian.Uint32(buf[0:])),
		value: int32(binary.NativeEndian.Uint32(buf[4:])),
		errno: int32(binary.NativeEndian.Uint32(buf[8:])),
	}, nil
}

// drain waits for the outputs to be complete.
func (r *run) drain() {
	deadline := time.Now().Add(drainPatience)
	for _, out := range r.outs {
		_ = out.file.SetReadDeadline(deadline)
	}
	r.copies.Wait()
	for _, out := range r.outs {
		_ = out.file.Close()
	}
}

// errIsFull reports whether a log failed for want of room.
func errIsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
