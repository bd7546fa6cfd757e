package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// TrialTime is how long a new program may take until it has a session that its hub has
	// accepted.
	TrialTime = 60 * time.Second
	// stopTime is how long it may take to end when its trial is over. A stop of this process
	// waits for it, so it is well below TimeoutStopSec of the unit.
	stopTime = 15 * time.Second

	// trialVariable tells a program that it is tried: it names the file descriptor that is
	// told of the session. Releases use it towards each other, so it stays as it is.
	trialVariable = "DECKHAND_NODE_TRIAL"
	trialFile     = 3
	// linkedLine is what a program that is tried writes when it has a session.
	linkedLine = "linked\n"
	// previousFile keeps the program before the last upgrade.
	previousFile = "deckhand-node.previous"
)

// Ready is a program that was verified and may be tried. It is an error, with which a daemon
// ends so that the program can take its place.
type Ready struct {
	// Program is its file, whose SHA-256 is digest in hexadecimal.
	Program string
	// ID is that of the order.
	ID, Version string

	digest    string
	self, dir string
	// running is the file that this process runs.
	running os.FileInfo
	// patience is TrialTime; shorter only in tests.
	patience time.Duration
	log      hclog.Logger
}

// Error implements error.
func (r *Ready) Error() string { return "stopped to upgrade to " + r.Version }

// Take tries the program with the arguments and the environment of this process, which
// becomes it, or the old program again if it fails. It returns when ctx ends, or with an
// error if neither program can be started. The daemon has ended before.
func (r *Ready) Take(ctx context.Context, args, environment []string) error {
	// Without it a crash during the trial would go unnoticed, and the trial begin again.
	err := r.store("tried", "")
	if err == nil {
		err = r.try(ctx, args, environment)
	}
	if ctx.Err() != nil {
		r.record("failed", "it was stopped during the trial")
		return nil
	}
	if err == nil {
		err = r.install()
	}
	if err != nil {
		r.log.Error("the upgrade failed, the old program goes on", "version", r.Version, "error", err)
		r.record("failed", err.Error())
	} else {
		r.log.Info("upgraded", "version", r.Version)
		r.record("installed", "")
	}
	if ctx.Err() != nil {
		return nil // told to stop meanwhile
	}
	if err := syscall.Exec(r.self, args, environment); err != nil {
		return fmt.Errorf("start %s: %w", r.self, err)
	}
	return nil
}

// try runs the program until it has a session with the hub.
func (r *Ready) try(ctx context.Context, args, environment []string) (err error) {
	linked, report, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer linked.Close()
	child := exec.Command(r.Program, args[1:]...)
	for _, variable := range environment {
		// systemd hears this process only.
		if !strings.HasPrefix(variable, "NOTIFY_SOCKET=") {
			child.Env = append(child.Env, variable)
		}
	}
	child.Env = append(child.Env, fmt.Sprintf("%s=%d", trialVariable, trialFile))
	child.Stdout, child.Stderr, child.ExtraFiles = os.Stdout, os.Stderr, []*os.File{report}
	// It ends with this process, also if it hangs: the next start would find the data folder
	// locked. The kernel takes the thread that started it for the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = child.Start()
	_ = report.Close() // the child has it
	if err != nil {
		return fmt.Errorf("start the new program: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	said := make(chan bool, 1)
	go func() {
		line := make([]byte, len(linkedLine))
		_, err := io.ReadFull(linked, line)
		said <- err == nil && string(line) == linkedLine
	}()
	over := time.NewTimer(r.patience)
	defer over.Stop()
	select {
	case ok := <-said:
		if ok {
			return stop(child, ended)
		}
		err = errors.New("the new program ended before it had a session with the hub")
	case <-over.C:
		err = fmt.Errorf("the new program had no session with the hub within %s", r.patience)
	case <-ctx.Done():
	}
	return errors.Join(err, stop(child, ended))
}

// stop ends a program in order, or at once if that takes too long.
func stop(child *exec.Cmd, ended <-chan error) error {
	_ = child.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("the new program ended with an error: %w", err)
		}
		return nil
	case <-time.After(stopTime):
	}
	_ = child.Process.Kill() // it may have ended
	<-ended                  //nolint:errcheck // it was killed
	return fmt.Errorf("the new program did not stop within %s", stopTime)
}

// install replaces the old program, which is kept beside, by what was verified.
func (r *Ready) install() error {
	if err := unchanged(r.self, r.running); err != nil {
		return err
	}
	if err := clone(r.self, filepath.Join(r.dir, previousFile), ""); err != nil {
		return fmt.Errorf("keep the old program: %w", err)
	}
	if err := clone(r.Program, r.self, r.digest); err != nil {
		return fmt.Errorf("replace the program: %w", err)
	}
	if err := os.Remove(r.Program); err != nil {
		r.log.Warn("cannot remove the downloaded program", "error", err)
	}
	return nil
}

// unchanged reports an error unless the program at self is the one that this process runs: a
// package may have replaced it by a newer one.
func unchanged(self string, running os.FileInfo) error {
	there, err := os.Stat(self)
	if err != nil {
		return fmt.Errorf("look at the program: %w", err)
	}
	if !os.SameFile(there, running) {
		return fault.New(fault.Precondition, "%s was replaced since this node started", self).WithFix("restart deckhand-node, which starts the new program")
	}
	return nil
}

// clone puts a copy of a program at path, whole or not at all. The copy has that SHA-256; an
// empty digest is not compared.
func clone(from, path, digest string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), temporary)
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, hash), in)
	if got := hex.EncodeToString(hash.Sum(nil)); err == nil && digest != "" && got != digest {
		err = fmt.Errorf("%s is not what was verified: its digest is %s", from, got)
	}
	err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		_ = os.Remove(out.Name()) // it was not completed
		return err
	}
	return flush(filepath.Dir(path))
}

// flush makes what was renamed in a folder survive the loss of power.
func flush(dir string) error {
	folder, err := os.Open(dir)
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	if err != nil {
		return fmt.Errorf("flush the folder %s: %w", dir, err)
	}
	return nil
}

// Trial returns what a program that is tried calls when its hub has accepted its session, which
// says so to the program that tries it; nil in a program that is not tried. The environment
// is cleared of what says so.
func Trial() (linked func(), err error) {
	if os.Getenv(trialVariable) == "" {
		return nil, nil
	}
	if err := os.Unsetenv(trialVariable); err != nil {
		return nil, err
	}
	syscall.CloseOnExec(trialFile)
	report := os.NewFile(trialFile, "trial")
	return sync.OnceFunc(func() { _, _ = report.WriteString(linkedLine) }), nil // the reader may have gone
}
