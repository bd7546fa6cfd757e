// Package jailtest provides tests with a real containerd, a real deckhand-init
// and jails that use them. All of it is removed at the end of the test.
package jailtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// EnvContainerd names a containerd that runs already, for a whole run of tests
// to share.
const EnvContainerd = "DECKHAND_TEST_CONTAINERD"

// EnvInit names a deckhand-init of this source, for a whole run of tests to share.
const EnvInit = "DECKHAND_TEST_INIT"

// EnvSoak asks, when it is set, for the full size of tests that take long at it.
const EnvSoak = "DECKHAND_SOAK"

// EnvRuntime names the runtime of the jails whose tests do not choose one: runc
// unless it is set.
const EnvRuntime = "DECKHAND_TEST_RUNTIME"

// OwnKernel reports whether the jails of this run of tests have a kernel of their own.
func OwnKernel() bool { return os.Getenv(EnvRuntime) != "" && os.Getenv(EnvRuntime) != "runc" }

// Differs skips a test of what jails with a kernel of their own do otherwise, by the
// subject of a difference in the table of package jail.
func Differs(tb testing.TB, subject string) {
	tb.Helper()
	if !slices.ContainsFunc(jail.Differences(), func(d jail.Difference) bool { return d.Subject == subject }) {
		tb.Fatalf("%q is no difference between the runtimes", subject)
	}
	if OwnKernel() {
		tb.Skip("differs: " + subject)
	}
}

// Sized returns the size of a test: full in a soak.
func Sized(usual, full int) int {
	if os.Getenv(EnvSoak) != "" {
		return full
	}
	return usual
}

// startTimeout bounds the start of a containerd.
const startTimeout = 30 * time.Second

// shared is what Run started for all tests of a package.
var shared struct{ address, init string }

// Run is for TestMain: all tests of the package share one containerd and one
// deckhand-init. It returns the exit code.
func Run(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // the tests say why they are skipped
	}
	dir, err := makeDir()
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	if shared.init = os.Getenv(EnvInit); shared.init == "" {
		if shared.init, err = buildInit(dir); err != nil {
			return failed(err)
		}
	}
	if shared.address = os.Getenv(EnvContainerd); shared.address == "" {
		c, err := start(dir)
		if err != nil {
			return failed(err)
		}
		defer c.stop()
		shared.address = c.address
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "jailtest:", err)
	return 1
}

// needRoot skips a test that cannot make jails.
func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("jails are made by root: run the tests as root")
	}
}

// Containerd returns the address of a containerd: the one that Run started, or
// that DECKHAND_TEST_CONTAINERD names, or one for this test.
func Containerd(tb testing.TB) string {
	tb.Helper()
	needRoot(tb)
	if shared.address != "" {
		return shared.address
	}
	if address := os.Getenv(EnvContainerd); address != "" {
		return address
	}
	c, err := start(Dir(tb))
	require.NoError(tb, err)
	tb.Cleanup(c.stop)
	return c.address
}

// InitPath returns a deckhand-init of this source.
func InitPath(tb testing.TB) string {
	tb.Helper()
	if shared.init != "" {
		return shared.init
	}
	if path := os.Getenv(EnvInit); path != "" {
		return path
	}
	path, err := buildInit(tb.TempDir())
	require.NoError(tb, err)
	return path
}

// Dir returns a folder that jails can be made below: unlike tb.TempDir, every
// folder above it is searchable by everyone. At the end of the test what is
// mounted below it is unmounted, and it is deleted.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := makeDir()
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, unmountBelow(dir))
		require.NoError(tb, os.RemoveAll(dir))
	})
	return dir
}

func makeDir() (string, error) {
	dir, err := os.MkdirTemp("", "deckhand-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// Config returns the configuration of a Manager with a data folder and a
// namespace of its own.
func Config(tb testing.TB) jail.Config {
	tb.Helper()
	return jail.Config{
		DataDir: Dir(tb), Containerd: Containerd(tb), InitPath: InitPath(tb),
		Namespace: strings.ReplaceAll(ident.New("test"), "_", "-"),
	}
}

// Manager opens a Manager. At the end of the test its jails are removed.
func Manager(tb testing.TB, cfg jail.Config) *jail.Manager {
	tb.Helper()
	m, err := jail.NewManager(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { RemoveAll(tb, cfg); _ = m.Close() })
	return m
}

// RemoveAll removes all jails of a configuration, including those that other
// processes made.
func RemoveAll(tb testing.TB, cfg jail.Config) {
	tb.Helper()
	// There may be a hundred of them, on a busy machine.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	m, err := jail.NewManager(ctx, cfg)
	require.NoError(tb, err)
	defer m.Close()
	all, err := m.List(ctx)
	require.NoError(tb, err)
	for _, one := range all {
		require.NoError(tb, m.Remove(ctx, one.GetJailId()))
	}
	// The runtime removes a jail's own cgroups and leaves the one above them.
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		dirs, err := filepath.Glob(pattern + cfg.Namespace)
		require.NoError(tb, err)
		for _, dir := range dirs {
			_ = os.Remove(dir)
		}
	}
}

// Spec returns a small jail's spec.
func Spec(id string) *nodev1.JailSpec {
	return &nodev1.JailSpec{JailId: id, Runtime: os.Getenv(EnvRuntime), Rootfs: "host", MemoryBytes: 512 << 20, TmpBytes: 64 << 20, WorkspaceBytes: 64 << 20}
}

// buildInit builds deckhand-init below a folder.
func buildInit(dir string) (string, error) {
	path := filepath.Join(dir, "deckhand-init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/deckhand-sh/deckhand/cmd/deckhand-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build deckhand-init: %w: %s", err, out)
	}
	return path, nil
}

// daemon is a containerd of ours.
type daemon struct {
	address string
	cmd     *exec.Cmd
	exited  chan struct{}
	dir     string
}

// start runs containerd with everything of it below a folder.
func start(dir string) (*daemon, error) {
	program, err := exec.LookPath("containerd")
	if err != nil {
		return nil, fmt.Errorf("tests of jails need containerd and runc: apt-get install containerd runc: %w", err)
	}
	home := filepath.Join(dir, "containerd")
	if err := os.MkdirAll(home, 0o711); err != nil {
		return nil, err
	}
	d := &daemon{address: filepath.Join(home, "containerd.sock"), exited: make(chan struct{}), dir: dir}
	config := filepath.Join(home, "config.toml")
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.internal.v1.opt\"]\n[grpc]\naddress = %q\n",
		filepath.Join(home, "root"), filepath.Join(home, "state"), d.address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command(program, "--config", config)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// Should the test be killed, its containerd goes as well.
	d.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = d.cmd.Wait()
		close(d.exited)
	}()
	if err := d.await(); err != nil {
		d.stop()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return d, nil
}

func (d *daemon) await() error {
	deadline := time.After(startTimeout)
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		conn, err := net.Dial("unix", d.address)
		if err == nil {
			tick.Stop()
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-d.exited:
			return errors.New("containerd ended as soon as it was started")
		case <-deadline:
			return fmt.Errorf("containerd does not answer: %w", err)
		}
	}
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(startTimeout):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
	_ = unmountBelow(d.dir)
}

// unmountBelow unmounts everything below a folder, the innermost first.
func unmountBelow(dir string) error {
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	lines := strings.Split(string(raw), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			if err := unix.Unmount(fields[1], unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", fields[1], err)
			}
		}
	}
	return nil
}
