package initd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kernel is what init does itself in a jail with a kernel of its own, because the
// host cannot do it.
type kernel struct {
	// pids is how many processes the commands may have. Init's own come to it.
	pids int

	mu      sync.Mutex
	stopped map[int]string // by a hold: when each was started, by its PID
}

// ownKernel reads the arguments of PID 1; nil without any.
func ownKernel(args []string) (*kernel, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if len(args) != 2 || args[0] != OwnKernel {
		return nil, errors.New("deckhand-init is started by deckhand-node")
	}
	pids, err := strconv.Atoi(args[1])
	if err != nil || pids < 1 {
		return nil, fmt.Errorf("%s %q is no number of processes", OwnKernel, args[1])
	}
	return &kernel{pids: pids, stopped: map[int]string{}}, nil
}

// getSubreaper asks the kernel whether this process is a subreaper. It fails if the kernel
// does not support subreapers.
func getSubreaper(is *int32) error {
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(is)), 0, 0, 0) //nolint:gosec // the kernel writes a number there
}

// stopPatience bounds how long it may take to stop all commands.
const stopPatience = 2 * time.Second

// stopCommands stops every process of every command, or lets those continue that
// it has stopped. Only the commands themselves could continue one again, and none
// of them runs.
func (s *server) stopCommands(stop bool) error {
	s.kernel.mu.Lock()
	defer s.kernel.mu.Unlock()
	if !stop {
		s.continueStopped()
		return nil
	}
	for end := time.Now().Add(stopPatience); ; time.Sleep(time.Millisecond) {
		running := 0
		s.gate.do(func() { running = s.stopOnce() })
		if running == 0 {
			return nil
		}
		if time.Now().After(end) {
			s.continueStopped()
			return status.Errorf(codes.DeadlineExceeded, "%d processes do not stop", running)
		}
	}
}

// stopOnce stops what runs, and returns how much that was. One that a command had
// stopped before is not continued later.
func (s *server) stopOnce() (running int) {
	for _, r := range s.all() {
		if r.ended() || r.stub == nil {
			continue
		}
		for _, pid := range s.trees.members(r.stub) {
			st, ok := readStat(pid)
			if !ok || st.state == 'T' || st.state == 'Z' || st.state == 'X' {
				continue
			}
			running++
			if unix.Kill(pid, unix.SIGSTOP) == nil {
				s.kernel.stopped[pid] = st.started
			}
		}
	}
	return running
}

// continueStopped continues children before their parents, which then do not see
// that they were stopped.
func (s *server) continueStopped() {
	pids := make([]int, 0, len(s.kernel.stopped))
	for pid := range s.kernel.stopped {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	for _, pid := range slices.Backward(pids) {
		if st, ok := readStat(pid); ok && st.started == s.kernel.stopped[pid] {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	clear(s.kernel.stopped)
}
