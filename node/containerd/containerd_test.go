package containerd_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/child"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/containerd"
)

// parentEnv makes the test binary play a parent that starts containerd in the
// folder it names, says so, and waits to be killed.
const parentEnv = "DECKHAND_TEST_CONTAINERD_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		d, err := containerd.Config{DataDir: dir}.Complete(context.Background())
		if err == nil {
			err = d.Start(context.Background())
		}
		fmt.Println("started:", err, d.PID())
		select {}
	}
	goleak.VerifyTestMain(m)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
}

func start(t *testing.T, dir string) *containerd.Daemon {
	t.Helper()
	d, err := containerd.Config{DataDir: dir}.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.Start(t.Context()))
	t.Cleanup(d.Stop)
	return d
}

func TestDaemonServesContainersWithoutCRIAndStops(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "ctr")
	d := start(t, dir)
	require.True(t, containerd.Running(d.Address()))
	c, err := client.New(d.Address())
	require.NoError(t, err)
	defer c.Close()
	ctx := namespaces.WithNamespace(t.Context(), "deckhand")
	containers, err := c.Containers(ctx)
	require.NoError(t, err)
	require.Empty(t, containers)
	plugins, err := c.IntrospectionService().Plugins(ctx)
	require.NoError(t, err)
	for _, plugin := range plugins.GetPlugins() {
		require.NotContains(t, plugin.GetID(), "cri")
	}
	log, err := os.ReadFile(filepath.Join(dir, "containerd.log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "level=error")

	d.Stop()
	require.NoError(t, d.Err())
	require.False(t, containerd.Running(d.Address()))
	require.Error(t, containerd.Check(t.Context(), d.Address()))
}

func TestDaemonOfAParentThatWasKilledIsAdoptedAndStopped(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "ctr")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+dir)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscanf(line, "started: <nil> %d", &pid)
	require.NoError(t, err, line)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	orphan, err := child.Of(pid)
	require.NoError(t, err)

	d := start(t, dir)
	require.True(t, d.Adopted())
	require.Equal(t, pid, d.PID())
	require.True(t, containerd.Running(d.Address()))
	d.Stop()
	require.False(t, orphan.Alive())
}

func TestDaemonInAFolderWithALongNameHasAShortSocket(t *testing.T) {
	t.Parallel()
	needRoot(t)
	d := start(t, filepath.Join(t.TempDir(), strings.Repeat("long", 30)))
	t.Cleanup(func() { _ = os.Remove(d.Address()); _ = os.Remove(d.Address() + ".ttrpc") })
	require.True(t, containerd.Running(d.Address()))
	require.Less(t, len(d.Address()), 100)
}

func TestMissingBinaryIsNamedWithTheCommandThatInstallsIt(t *testing.T) {
	t.Parallel()
	needRoot(t)
	_, err := containerd.Config{DataDir: t.TempDir(), Bin: "/nowhere/containerd"}.Complete(t.Context())
	require.True(t, fault.Is(err, fault.Precondition))
	require.ErrorContains(t, err, "apt-get install containerd runc")
	_, err = containerd.Config{}.Complete(t.Context())
	require.ErrorContains(t, err, "data folder")
}

func TestNothingRunsWhereThereIsNoSocketOrNobodyListens(t *testing.T) {
	t.Parallel()
	require.False(t, containerd.Running(filepath.Join(t.TempDir(), "absent.sock")))
	file := filepath.Join(t.TempDir(), "file.sock")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.False(t, containerd.Running(file))
}
