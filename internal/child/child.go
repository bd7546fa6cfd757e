// Package child runs a daemon that may outlive the process that started it,
// such as the private PostgreSQL and containerd of `deckhand up`.
//
// Before the child executes the daemon, it writes its identity (pid, start time
// and the machine's boot id) to a pid file, so that it never runs unrecorded.
// If the parent is killed, the daemon keeps running; the next parent finds it
// by that record, adopts it, and stops it when that parent itself stops. A
// process that reused the pid is never mistaken for the daemon.
//
// The daemon runs in its own session, so that neither Ctrl-C in a terminal nor
// the end of the terminal reaches it. The parent stops it, in order.
//
// The caller must hold a lock on StateDir; otherwise two concurrent parents
// would each believe that they own the daemon.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// Config describes what to run and how to check that it serves.
type Config struct {
	// Name names the daemon in errors and its files in StateDir: NAME.pid and
	// NAME.log.
	Name string
	// StateDir exists and is writable by the parent.
	StateDir string
	// Path is the binary, Args what follows it.
	Path string
	Args []string
	// Env is the daemon's whole environment.
	Env []string
	// Dir is its working folder.
	Dir string
	// Credential is the user it runs as; nil for the parent's own.
	Credential *syscall.Credential
	// Ready returns nil once the daemon serves. It is asked again and again
	// until then.
	Ready func(ctx context.Context) error
	// StartTimeout bounds the wait for Ready; 60 s when 0.
	StartTimeout time.Duration
	// StopSignals ask it to end, one after the other, each with StopTimeout to
	// obey; SIGKILL follows the last. SIGTERM alone when empty.
	StopSignals []syscall.Signal
	// StopTimeout is 30 s when 0.
	StopTimeout time.Duration
}

const (
	// readyPoll is how often Ready is asked and an adopted daemon looked at:
	// there is no wait(2) for what is not one's child.
	readyPoll = 25 * time.Millisecond
	alivePoll = 250 * time.Millisecond
	// maxLog is the size from which a log is set aside at the next start.
	maxLog = 10 << 20
)

// Process is the daemon as a service. Start adopts it or starts it and returns
// when it is ready; Stop returns when it has ended.
type Process struct {
	lifecycle.Runner

	cfg Config
	// adopted and id describe the daemon that Start last found or started.
	adopted bool
	id      Identity
}

// New prepares a Process.
func New(cfg Config) *Process {
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = time.Minute
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 30 * time.Second
	}
	if len(cfg.StopSignals) == 0 {
		cfg.StopSignals = []syscall.Signal{syscall.SIGTERM}
	}
	return &Process{cfg: cfg}
}

// exit is the end of a daemon; the cause is never nil.
type exit struct{ cause error }

// Adopted reports whether the last Start found the daemon running already.
func (p *Process) Adopted() bool { return p.adopted }

// PID returns the pid of the daemon that Start last found or made.
func (p *Process) PID() int { return p.id.PID }

// LogFile returns the path of the file that holds what the daemon prints.
func (p *Process) LogFile() string { return filepath.Join(p.cfg.StateDir, p.cfg.Name+".log") }

func (p *Process) pidFile() string { return filepath.Join(p.cfg.StateDir, p.cfg.Name+".pid") }

// Start implements lifecycle.Service.
func (p *Process) Start(ctx context.Context) error {
	id, err := Read(p.pidFile())
	if err != nil {
		return fmt.Errorf("%s: %w", p.cfg.Name, err)
	}
	var ended <-chan exit
	life, cancelLife := context.WithCancel(context.WithoutCancel(ctx))
	if p.adopted = id.Alive(); p.adopted {
		ended = watch(life, id)
	} else if id, ended, err = p.spawn(); err != nil {
		cancelLife()
		return fmt.Errorf("start %s: %w", p.cfg.Name, err)
	}
	p.id = id
	if err := p.awaitReady(ctx, ended); err != nil {
		p.end(id, ended)
		cancelLife()
		return fmt.Errorf("start %s: %w%s", p.cfg.Name, err, p.logTail())
	}
	err = p.Run(ctx, func(ctx context.Context) error {
		defer cancelLife()
		select {
		case <-ctx.Done():
			p.end(id, ended)
			return nil
		case end := <-ended:
			_ = os.Remove(p.pidFile())
			return fmt.Errorf("%s ended by itself: %w%s", p.cfg.Name, end.cause, p.logTail())
		}
	})
	if err != nil {
		cancelLife()
	}
	return err
}

// recorder runs in the child before it becomes the daemon. Its descriptor 3 is
// the pid file.
const recorder = `cat /proc/sys/kernel/random/boot_id "/proc/$$/stat" >&3 && exec "$0" "$@" 3>&-`

func (p *Process) spawn() (Identity, <-chan exit, error) {
	log, err := openLog(p.LogFile())
	if err != nil {
		return Identity{}, nil, err
	}
	defer log.Close()
	pid, err := os.OpenFile(p.pidFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return Identity{}, nil, err
	}
	defer pid.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", recorder, p.cfg.Path}, p.cfg.Args...)...)
	cmd.Env, cmd.Dir = p.cfg.Env, p.cfg.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{pid}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.cfg.Credential}
	if err := cmd.Start(); err != nil {
		return Identity{}, nil, err
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		// It cannot have been reaped yet, so /proc itself must be at fault.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Identity{}, nil, err
	}
	ended := make(chan exit, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		ended <- exit{err}
		close(ended)
	}()
	return id, ended, nil
}

// watch returns when an adopted daemon has ended.
func watch(ctx context.Context, id Identity) <-chan exit {
	ended := make(chan exit, 1)
	go func() {
		defer close(ended)
		tick := time.NewTicker(alivePoll)
		defer tick.Stop()
		for id.Alive() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		ended <- exit{errors.New("the process has exited")}
	}()
	return ended
}

func (p *Process) awaitReady(ctx context.Context, ended <-chan exit) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.StartTimeout)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := p.cfg.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case end := <-ended:
			return end.cause
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-tick.C:
		}
	}
}

// end stops the daemon, by force if it must.
func (p *Process) end(id Identity, ended <-chan exit) {
	for _, signal := range append(p.cfg.StopSignals, syscall.SIGKILL) {
		id.Signal(signal)
		timeout := time.NewTimer(p.cfg.StopTimeout)
		select {
		case <-ended:
			timeout.Stop()
			_ = os.Remove(p.pidFile())
			return
		case <-timeout.C:
		}
	}
}

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("set aside an old log: %w", err)
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// logTail returns the log's last lines as part of an error message.
func (p *Process) logTail() string {
	f, err := os.Open(p.LogFile())
	if err != nil {
		return ""
	}
	defer f.Close()
	const size = 600
	if info, err := f.Stat(); err == nil && info.Size() > size {
		_, _ = f.Seek(-size, io.SeekEnd)
	}
	tail, _ := io.ReadAll(io.LimitReader(f, size))
	lines := strings.Split(string(bytes.TrimSpace(tail)), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	return fmt.Sprintf("; %s ends with: %s", p.LogFile(), strings.Join(lines, " / "))
}
