package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
)

const (
	// restartPause is how long a unit stays dead, systemd's own default.
	restartPause = 100 * time.Millisecond
	// stopPatience is how long a unit may take to stop in order.
	stopPatience = 30 * time.Second
)

// unit is one process that is started again whenever it ends, until it is
// stopped.
type unit struct {
	name    string
	command func() *exec.Cmd
	log     *os.File
	// term asks it to stop in order.
	term syscall.Signal

	mu       sync.Mutex
	cmd      *exec.Cmd     // guarded by mu; nil between two lives
	gone     chan struct{} // closed when cmd has ended; guarded by mu
	stopping bool          // guarded by mu
	// out is open while the unit is to stay dead; guarded by mu, nil otherwise.
	out   chan struct{}
	ended chan struct{} // closed when it will not be started again
}

// unit starts a unit of the rig. command returns a new command for each start.
func (r *rig) unit(name string, term syscall.Signal, command func() *exec.Cmd) *unit {
	r.t.Helper()
	log, err := os.Create(filepath.Join(r.dir, name+".log"))
	require.NoError(r.t, err)
	u := &unit{name: name, command: command, log: log, term: term, ended: make(chan struct{})}
	require.NoError(r.t, u.start())
	go u.supervise()
	r.t.Cleanup(func() {
		u.stop(r.t)
		if r.t.Failed() {
			r.t.Logf("--- %s\n%s", name, tail(log.Name(), 12_000))
		}
		_ = log.Close()
	})
	r.units = append(r.units, u)
	return u
}

func (u *unit) start() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopping {
		return nil
	}
	cmd := u.command()
	cmd.Stdout, cmd.Stderr = u.log, u.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// Should the test itself be killed, nothing stays.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return err
	}
	u.cmd, u.gone = cmd, make(chan struct{})
	return nil
}

// supervise is systemd's Restart=always.
func (u *unit) supervise() {
	defer close(u.ended)
	for {
		u.mu.Lock()
		cmd, gone := u.cmd, u.gone
		u.mu.Unlock()
		if cmd == nil {
			return // stopped before it could be started again
		}
		_ = cmd.Wait() // how it ended is in its log, and mostly our doing
		u.mu.Lock()
		u.cmd = nil
		stopping, out := u.stopping, u.out
		u.mu.Unlock()
		close(gone)
		if stopping {
			return
		}
		if out != nil {
			<-out
		}
		<-time.After(restartPause)
		if err := u.start(); err != nil {
			return // its binary is gone: the test is over
		}
	}
}

// kill ends the process as kill -9 does, and returns when it is gone. It is restarted
// automatically.
func (u *unit) kill() { u.signalAndWait(syscall.SIGKILL) }

// signal sends a signal that does not end it.
func (u *unit) signal(sig syscall.Signal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cmd != nil {
		_ = u.cmd.Process.Signal(sig)
	}
}

func (u *unit) signalAndWait(sig syscall.Signal) {
	u.mu.Lock()
	cmd, gone := u.cmd, u.gone
	if cmd != nil {
		_ = cmd.Process.Signal(sig)
	}
	u.mu.Unlock()
	if cmd != nil {
		<-gone
	}
}

// outage ends the process, and returns when it is gone. It is restarted once the returned
// function is called.
func (u *unit) outage(sig syscall.Signal) (over func()) {
	out := make(chan struct{})
	u.mu.Lock()
	u.out = out
	u.mu.Unlock()
	u.signalAndWait(sig)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.out == out {
			u.out = nil
			close(out)
		}
	}
}

// cpu returns how much processor time the process has used.
func (u *unit) cpu(t testing.TB) time.Duration {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	require.NotNil(t, u.cmd, "%s is dead", u.name)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(t, err)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ, proc(5)
}

// stop ends the unit in order and for good.
func (u *unit) stop(t testing.TB) {
	u.mu.Lock()
	u.stopping = true
	if u.out != nil {
		close(u.out)
		u.out = nil
	}
	if u.cmd != nil {
		_ = u.cmd.Process.Signal(syscall.SIGCONT)
		_ = u.cmd.Process.Signal(u.term)
	}
	u.mu.Unlock()
	select {
	case <-u.ended:
	case <-time.After(waittest.Limit(stopPatience)):
		t.Errorf("%s did not stop within %s", u.name, stopPatience)
		u.kill()
		<-u.ended
	}
}

// tail returns the end of a file.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > n {
		return "[...]" + string(data[len(data)-n:])
	}
	return string(data)
}
