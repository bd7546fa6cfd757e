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
	switch {
	case os.Getpid() == 1 && len(os.Args) == 1:
		return serve(StateDir, commands{})
	case os.Getpid() == 1 && os.Args[1] == CommandsAsRoot:
		how, err := asRoot()
		if err != nil {
			return fmt.Errorf("make the commands' user namespace: %w", err)
		}
		return serve(StateDir, how)
	case len(os.Args) == 2 && os.Args[1] == holdNamespace:
		return hold()
	case len(os.Args) > 1:
		return hostMain(os.Args[1:])
	}
	return errors.New("deckhand-init is PID 1 of a jail; it is started by deckhand-node")
}

// commands says how init runs commands.
type commands struct {
	host bool // on the machine itself, in no jail
	// namespace is the user namespace that they run in; nil for init's own.
	namespace *os.File
	// lastCapability is the highest that the kernel knows.
	lastCapability uintptr
}

// serve serves from a state folder until SIGTERM.
func serve(state string, how commands) error {
	makeThreads()
	debug.SetGCPercent(50)
	unix.Umask(0o077)
	s, err := newServer(state)
	if err != nil {
		return err
	}
	s.commands = how
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM)

	socket := filepath.Join(state, SocketFile)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier init: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
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
		case <-stopped:
			return nil
		}
	}
}

// reap collects every process that has ended below init: stubs, and orphans of
// stubs that were killed.
func (s *server) reap() {
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
			close(st.gone)
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
