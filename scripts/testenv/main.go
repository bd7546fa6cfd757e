// Command testenv runs a command, usually a test run, in a shared environment.
// It starts a private PostgreSQL and, for root, a private containerd, runs the
// command with their addresses in the environment, stops them, removes what
// they left behind, and exits with the command's status. It also measures how
// fast the machine is; the time limits of tests that wait are multiplied by the
// result (package waittest).
//
//	go run ./scripts/testenv go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/jail/initbin"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = 1
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	if len(command) == 0 {
		return 0, errors.New("name the command to run")
	}
	// The command is signalled first; then what it uses is stopped.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	dir, err := folder("")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	databases, err := folder(quick())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(databases)) }()
	env, services, err := prepare(ctx, dir, databases)
	if err != nil {
		return 0, err
	}
	// They must outlive the command, also when ctx ends.
	if err := services.Start(context.WithoutCancel(ctx)); err != nil {
		return 0, err
	}
	defer services.Stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // running a command is what this is for
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	} else if err != nil {
		return 0, err
	}
	return 0, nil
}

// prepare returns the services and the environment that names them. What the
// environment names already is used as it is.
func prepare(ctx context.Context, dir, databases string) (env []string, services *lifecycle.Group, err error) {
	services = &lifecycle.Group{}
	if os.Getenv(waittest.EnvFactor) == "" {
		env = append(env, fmt.Sprintf("%s=%d", waittest.EnvFactor, factor()))
	}
	if os.Getenv(postgrestest.EnvURL) == "" {
		cluster, err := postgres.Config{DataDir: filepath.Join(databases, "pg"), Fast: true}.Complete(ctx)
		if err != nil {
			return nil, nil, err
		}
		services.Add("PostgreSQL", cluster)
		env = append(env, postgrestest.EnvURL+"="+cluster.URL("postgres"))
	}
	if os.Getenv(jailtest.EnvContainerd) == "" && os.Geteuid() == 0 {
		daemon, err := containerd.Config{DataDir: filepath.Join(dir, "containerd")}.Complete(ctx)
		if err != nil {
			return nil, nil, err
		}
		services.Add("containerd", daemon)
		env = append(env, jailtest.EnvContainerd+"="+daemon.Address())
		init, _, err := initbin.Extract(dir)
		if err == nil {
			env = append(env, jailtest.EnvInit+"="+init)
		} else if !errors.Is(err, initbin.ErrAbsent) {
			return nil, nil, err
		}
	}
	return env, services, nil
}

// memory is where files lie in memory, and neededMemory is how much of it must be free for
// the databases of a whole run.
const (
	memory       = "/dev/shm"
	neededMemory = 4 << 30
)

// quick returns where databases are to lie: in memory where there is enough of it, since they
// are hundreds of folders of a thousand files, which a disk's file system takes several times
// as long to create and remove; and else "", where temporary files lie.
func quick() string {
	var fs unix.Statfs_t
	if err := unix.Statfs(memory, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC || fs.Bavail*uint64(fs.Bsize) < neededMemory { //nolint:gosec // a block's size is positive
		return ""
	}
	return memory
}

// folder creates a folder that the user postgres and the user namespaces of jails may enter.
func folder(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "deckhand-test-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // others enter it
}

const (
	// raceFactor is how many times longer tests take with the race detector.
	raceFactor = 4
	// crowdFactor is how many times longer they take beside those of all other packages,
	// which start only after the machine was measured.
	crowdFactor = 3
)

// factor returns the factor of all limits of waits: for this machine, and for what
// the command runs the tests with.
func factor() int {
	f := slowness()
	if slices.Contains(os.Args, "-race") {
		f *= raceFactor
	}
	if slices.Contains(os.Args, "./...") {
		f *= crowdFactor
	}
	return f
}

// usual is how long the work of slowness takes on two processors of a usual
// server that do nothing else.
const usual = 250 * time.Millisecond

// slowness returns how many times longer work takes here and now than on two idle
// processors of a usual server, rounded up and at least 1. Rounding keeps the
// results of `go test` in its cache.
func slowness() int {
	work := make([]byte, 1<<20)
	start := time.Now()
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for range 200 {
				_ = crc64.Checksum(work, crc64.MakeTable(crc64.ECMA))
			}
		})
	}
	group.Wait()
	return max(1, int(math.Ceil(float64(time.Since(start))/float64(usual))))
}
