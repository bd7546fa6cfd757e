package initd

import (
	"fmt"
	"runtime"
	"time"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// Most commands need the same kind of stub: without input and without a
// terminal. Such stubs are created in advance, so that starting a command takes
// only a message to one.

// readyStubs is how many are kept ready. Each is a process without memory of
// its own except for a stack of 4 KiB and what the kernel has of it.
const readyStubs = 4

// stub is a stub seen from init.
type stub struct {
	pid   int
	pipes *pipes
	gone  chan struct{} // closed by the reaper when the whole tree has ended
	clean bool          // it ended by itself; set before gone is closed
	group string        // its tree's cgroup, if trees are told apart by them

	// Both are the stub's to use until it is gone.
	args  *stubArgs
	stack *[stubStack]byte
}

func (st *stub) isGone() bool {
	select {
	case <-st.gone:
		return true
	default:
		return false
	}
}

// release lets go of what a stub that is gone had.
func (st *stub) release() { st.args, st.stack, st.pipes = nil, nil, nil }

// isPlain reports whether a request is served by a stub that is ready.
func isPlain(req *initv1.StartRequest) bool {
	return req.GetPtyRows() == 0 && len(req.GetStdin()) == 0 && !req.GetStdinOpen()
}

// stubFor returns a stub that waits for its command, connected as the request
// requires, or the reason why there is none.
func (s *server) stubFor(req *initv1.StartRequest) (st *stub, why string) {
	for isPlain(req) {
		select {
		case st := <-s.ready:
			if st.isGone() {
				st.pipes.close()
				continue
			}
			return st, ""
		default:
		}
		break
	}
	return s.newStub(req)
}

func (s *server) newStub(req *initv1.StartRequest) (st *stub, why string) {
	p, err := newPipes(req)
	if err != nil {
		return nil, err.Error()
	}
	st = &stub{
		pipes: p, gone: make(chan struct{}),
		args: &stubArgs{
			stdio: [3]uintptr{fdOf(p.stdio[0]), fdOf(p.stdio[1]), fdOf(p.stdio[2])},
			line:  fdOf(p.theirLine), maxFD: maxFD(), namespace: s.commands.fd(),
		},
		stack: new([stubStack]byte),
	}
	// Under the lock, so that the reaper knows the stub before it can be gone.
	s.mu.Lock()
	pid, errno := forkStub(st.args, st.stack)
	if errno == 0 {
		st.pid, s.stubs[pid] = pid, st
		err = s.trees.begin(st)
	}
	s.mu.Unlock()
	if errno != 0 {
		p.close()
		return nil, startError(req, stepFork, errno)
	}
	if err != nil {
		p.close() // which ends it
		return nil, err.Error()
	}
	p.closeTheirs()
	return st, ""
}

// start has the stub start its command, and returns the command's PID or what
// the stub said of its failure. An error says that the stub is gone.
func (st *stub) start(c command) (report, error) {
	a := st.args
	a.paths, a.argv, a.envv, a.dir, a.become = c.paths, c.argv, c.envv, c.dir, c.become
	if st.pipes.pty != nil {
		a.tty = 1
	}
	if _, err := st.pipes.line.Write([]byte{1}); err != nil {
		return report{}, fmt.Errorf("send the command to the stub: %w", err)
	}
	said, err := readReport(st.pipes.line)
	// The command has its own memory now, or there is no command.
	runtime.KeepAlive(c)
	return said, err
}

// stockPause lets the command go first that took from what is ready.
const stockPause = 5 * time.Millisecond

// stock keeps folders and stubs ready for as long as init lives. What cannot be
// made, on a full disk or at the limit of processes, is tried again after the
// next command, which says so if it wants it.
func (s *server) stock() {
	s.fill(1, 1) // for the first command, which may come at once
	for {
		time.Sleep(stockPause)
		s.fill(cap(s.folders.ready), cap(s.ready))
		<-s.again
	}
}

func (s *server) fill(folders, stubs int) {
	for len(s.folders.ready) < folders {
		var err error
		s.gate.do(func() { err = s.folders.add() })
		if err != nil {
			break
		}
	}
	for len(s.ready) < stubs {
		var st *stub
		s.gate.do(func() { st, _ = s.newStub(&initv1.StartRequest{}) })
		if st == nil {
			break
		}
		s.ready <- st
	}
}
