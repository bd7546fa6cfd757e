package initd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// Main runs PID 1 of a jail, or the init of host mode. It serves until it
// receives SIGTERM, and then ends every command first.
func Main() error {
	args := os.Args[1:]
	switch {
	case len(args) == 1 && args[0] == Bridge:
		return bridgeMain()
	case len(args) == 1 && args[0] == holdNamespace:
		return hold()
	case os.Getpid() == 1 && len(args) == 1 && args[0] == CommandsAsRoot:
		how, err := asRoot()
		if err != nil {
			return fmt.Errorf("make the commands' user namespace: %w", err)
		}
		return serve(StateDir, place{commands: how})
	case os.Getpid() == 1:
		own, err := ownKernel(args)
		if err != nil {
			return err
		}
		return serve(StateDir, place{kernel: own})
	case len(args) > 0:
		return hostMain(args)
	}
	return errors.New("deckhand-init is PID 1 of a jail; it is started by deckhand-node")
}

// place is where init runs: in a jail, unless host says that it is the machine
// itself.
type place struct {
	host bool
	// kernel is set in a jail with a kernel of its own.
	kernel   *kernel
	commands commands
}

// serve serves from a state folder until SIGTERM.
func serve(state string, at place) error {
	unix.Umask(0o077)
	// First of all: the daemon connects while the rest is made, and is served after it.
	listener, err := listen(filepath.Join(state, SocketFile))
	if err != nil {
		return err
	}
	t, err := newTrees(state, at.kernel)
	if err != nil {
		return err
	}
	makeThreads(at.kernel != nil)
	debug.SetGCPercent(50)
	s, err := newServer(state, at, t)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM)

	rpc, err := ttrpc.NewServer(ttrpc.WithUnaryServerInterceptor(s.asked))
	if err != nil {
		return fmt.Errorf("make the server: %w", err)
	}
	initv1.RegisterInitServiceService(rpc, s)
	failed := make(chan error, 1)
	go s.stock()
	go func() { failed <- rpc.Serve(context.Background(), listener) }()

	s.rest.Reset(restPause)
	stopped := make(chan struct{})
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("serve: %w", err)
		case sig := <-signals:
			if sig == unix.SIGCHLD {
				s.reap()
				continue
			}
			go func() {
				s.shutdown()
				close(stopped)
			}()
		case <-s.lookAgain.C:
			s.reap()
		case <-stopped:
			return nil
		}
	}
}

// listen opens the socket that the daemon connects to.
func listen(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier init: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// reap collects every process that has ended below init: stubs, and orphans.
func (s *server) reap() {
	defer s.endTrees()
	for {
		var ws unix.WaitStatus
		s.mu.Lock()
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		st := s.stubs[pid]
		delete(s.stubs, pid)
		s.mu.Unlock()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if st != nil {
			st.clean = ws.Exited() && ws.ExitStatus() == 0
			s.ending = append(s.ending, st)
		}
	}
}

// killOrphans kills what is below init and below no stub, and returns how much
// is left when patience ends.
func (s *server) killOrphans() (left int) {
	for end := time.Now().Add(killPatience); ; time.Sleep(time.Millisecond) {
		s.gate.do(func() { left = s.killOrphansOnce() })
		if left == 0 || time.Now().After(end) {
			return left
		}
	}
}

func (s *server) killOrphansOnce() (left int) {
	for _, pid := range children(os.Getpid()) {
		s.mu.Lock()
		stub := s.stubs[pid] != nil
		s.mu.Unlock()
		if stub || isZombie(pid) {
			continue
		}
		for _, below := range append(descendants(pid), pid) {
			left++
			_ = unix.Kill(below, unix.SIGKILL)
		}
	}
	return left
}

// isZombie reports whether a process has ended and waits for its reaping.
func isZombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The name, in parentheses, may hold anything; the state follows it.
	at := bytes.LastIndexByte(raw, ')')
	return at < 0 || bytes.HasPrefix(raw[at:], []byte(") Z"))
}
