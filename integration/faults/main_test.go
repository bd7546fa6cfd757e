// Package faults kills Deckhand's real processes, and the services that they use, at
// named moments and at random, cuts the links between its hosts, and verifies the tasks
// afterwards: no command ran twice, no output is missing, every task has ended or waits
// for a person with a reason, and nothing is left behind.
//
// A rig is a separate Deckhand: PostgreSQL, NATS, containerd, hubs, workers and nodes,
// each a process that is restarted when it dies, as systemd would do. The binaries are
// built with the tag crashpoints (package internal/crashpoint). It needs root.
package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// envSoak asks for the full form of these tests, which takes half an hour.
const envSoak = "DECKHAND_SOAK"

func soaking() bool { return os.Getenv(envSoak) != "" }

func TestMain(m *testing.M) {
	if config := os.Getenv(envNATS); config != "" {
		serveNATS(config)
	}
	if config := os.Getenv(envNodes); config != "" {
		serveNodes(config)
	}
	code := m.Run()
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
	os.Exit(code)
}

// binaries are deckhand, deckhand-node and deckhand-init with the crash points
// in them.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

func bin(t testing.TB, name string) string {
	t.Helper()
	binaries.once.Do(func() {
		if binaries.dir, binaries.err = os.MkdirTemp("", "deckhand-crash-bin-"); binaries.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-tags", "crashpoints,grpcnotrace", "-ldflags", "-s -w", "-o", binaries.dir,
			"./cmd/deckhand", "./cmd/deckhand-node", "./cmd/deckhand-init")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			binaries.err = fmt.Errorf("build the binaries: %w\n%s", err, out)
		}
	})
	require.NoError(t, binaries.err)
	return filepath.Join(binaries.dir, name)
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("jails and network namespaces are made by root: run the tests as root")
	}
}
