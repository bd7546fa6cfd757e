package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// EnvBinaries names the folder of deckhand and deckhand-node, built for the
// whole run of tests. Without it each package builds them.
const EnvBinaries = "DECKHAND_TEST_BINARIES"

// Root is the folder of the repository as a package below integration sees it.
const Root = "../.."

// built returns the folder of the binaries.
var built = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(EnvBinaries); dir != "" {
		return dir, nil
	}
	out, err := exec.Command("make", "-s", "-C", Root, "build").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Abs(filepath.Join(Root, "bin"))
})

// Binary returns the path of deckhand or deckhand-node.
func Binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := built()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// Buffer collects what a process prints. It is safe for use by many goroutines.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Process is a running binary. Its output is logged when the test fails.
type Process struct {
	Cmd    *exec.Cmd
	Output *Buffer
	// Done is closed when the process has ended.
	Done chan struct{}
}

// Start runs a binary until the test ends.
func Start(t testing.TB, env []string, path string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(path, args...), Output: &Buffer{}, Done: make(chan struct{})}
	// Tests load the machine themselves: that is no reason to start nothing.
	// And a hub that ends with the test is none that whoever ran sudo is to know.
	// Nor does a role that is stopped wait for tasks, unless the test is about that.
	p.Cmd.Env = append(append(os.Environ(), "DECKHAND_PRESSURE_MAX_LOAD=off", "DECKHAND_DRAIN_TIMEOUT=0s", "SUDO_UID="), env...)
	p.Cmd.Stdout, p.Cmd.Stderr = p.Output, p.Output
	require.NoError(t, p.Cmd.Start())
	go func() {
		_ = p.Cmd.Wait() // tests check its exit where it matters
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("--- %s %s\n%s", filepath.Base(path), strings.Join(args, " "), Tail(p.Output.String(), 20_000))
		}
	})
	return p
}

// Tail returns the last n bytes of s, marked where something is left out.
func Tail(s string, n int) string {
	if len(s) > n {
		return "[...]" + s[len(s)-n:]
	}
	return s
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Done
}

// Stop ends the process with SIGTERM. One that does not end within 30 s fails the
// test and is killed.
func (p *Process) Stop(t testing.TB) {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	limit := waittest.Limit(30 * time.Second)
	select {
	case <-p.Done:
	case <-time.After(limit):
		t.Errorf("%s did not stop within %s of SIGTERM", p.Cmd.Path, limit)
		p.Kill()
	}
}

// Result is what one run of the command line printed, and its exit code.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs the command line with a home folder of its own.
func Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit(2*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, "deckhand"), args...)
	cmd.Env = append(os.Environ(), append([]string{"HOME=" + t.TempDir()}, env...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// ReadFile returns a file's content.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
