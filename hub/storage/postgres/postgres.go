// Package postgres runs the private PostgreSQL cluster of `deckhand up` and of the tests.
// Cluster uses the machine's own PostgreSQL binaries on its own folder. It listens on a
// Unix socket only, where the kernel authenticates the user (peer authentication), so
// that there is no password to store.
//
// The cluster is created on the first start. It survives the death of the process that
// started it; the next start adopts it. Started by root, it runs as the user postgres,
// since PostgreSQL refuses to run as root. If the server does not start, Start returns
// an error with the last lines of its output.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deckhand-sh/deckhand/internal/child"
)

// Role is the role that Deckhand connects as: it owns its databases and may
// make more, and is no superuser.
const Role = "deckhand"

// superuser owns the cluster; only this package connects as it.
const superuser = "postgres"

// Config says where the cluster is stored.
type Config struct {
	// DataDir has the cluster, its pid file, its log and its socket. It is created if
	// absent. The process that starts the cluster locks it.
	DataDir string
	// BinDir holds initdb and postgres. Empty: the newest that Debian's
	// packages or PATH have, or the one of the cluster's own version.
	BinDir string
	// RunAs is the user that the cluster runs as when root starts it; postgres
	// when empty. Without root it is the caller.
	RunAs string
	// Fast gives up crash safety for speed: for tests only.
	Fast bool
}

// Cluster is the private cluster. It is a lifecycle.Service.
type Cluster struct {
	*child.Process

	cfg       Config
	owner     owner
	bin       binaries
	socketDir string
}

// Complete finds the binaries and the user, and creates the folders. It starts nothing.
func (c Config) Complete(context.Context) (*Cluster, error) {
	dir, err := filepath.Abs(c.DataDir)
	if err != nil || c.DataDir == "" {
		return nil, fmt.Errorf("the PostgreSQL data folder %q is not usable: %w", c.DataDir, errors.Join(err, os.ErrInvalid))
	}
	c.DataDir = dir
	cluster := &Cluster{cfg: c}
	if cluster.owner, err = ownerOf(c.RunAs); err != nil {
		return nil, err
	}
	if cluster.bin, err = findBinaries(c.BinDir, clusterMajor(cluster.pgdata())); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("make the PostgreSQL data folder: %w", err)
	}
	if err := cluster.owner.mustReach(c.DataDir); err != nil {
		return nil, err
	}
	if cluster.socketDir, err = makeSocketDir(c.DataDir, cluster.owner); err != nil {
		return nil, err
	}
	command := cluster.Command()
	cluster.Process = child.New(child.Config{
		Name: "postgres", StateDir: c.DataDir,
		Path: command[0], Args: command[1:], Env: cluster.env(), Dir: c.DataDir,
		Credential: cluster.Credential(),
		Ready:      cluster.ready,
		// Fast shutdown first, which ends sessions and writes a checkpoint;
		// then immediate shutdown, from which the next start recovers.
		StopSignals: []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT},
	})
	return cluster, nil
}

// Start implements lifecycle.Service: it creates the cluster if there is none, adopts or
// starts it, and returns when it accepts connections.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	return c.Process.Start(ctx)
}

// Prepare creates the cluster if there is none and writes its settings. Start calls it.
func (c *Cluster) Prepare(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.pgdata(), "PG_VERSION")); errors.Is(err, os.ErrNotExist) {
		if err := c.initdb(ctx); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("look for the PostgreSQL cluster: %w", err)
	}
	if err := c.removeStalePid(); err != nil {
		return err
	}
	return c.writeSettings()
}

// AwaitReady returns when a server that was started by Command takes
// connections. Start does it too.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL is not ready: %w", err)
		case <-tick.C:
		}
	}
}

// Command returns the command line that serves the cluster.
func (c *Cluster) Command() []string {
	return []string{filepath.Join(c.bin.dir, "postgres"), "-D", c.pgdata()}
}

// Credential returns whom the command must run as; nil for the caller.
func (c *Cluster) Credential() *syscall.Credential { return c.owner.credential }

// URL returns the URL of one of the cluster's databases, as pgx takes it.
func (c *Cluster) URL(database string) string { return c.url(Role, database) }

func (c *Cluster) url(role, database string) string {
	query := url.Values{"host": {c.socketDir}, "port": {strconv.Itoa(port)}, "user": {role}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: query.Encode()}).String()
}

// EnsureDatabase creates a database if it is absent.
func (c *Cluster) EnsureDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("make database %s: %w", name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	// duplicate_database; unique_violation if another process creates it now.
	if err != nil && !hasState(err, "42P04", "23505") {
		return fmt.Errorf("make database %s: %w", name, err)
	}
	return nil
}

// ready returns nil when the cluster takes connections of our role, which it
// makes on the first occasion.
func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url(superuser, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "CREATE ROLE "+Role+" LOGIN CREATEDB")
	if err != nil && !hasState(err, "42710") { // duplicate_object
		return fmt.Errorf("make the role %s: %w", Role, err)
	}
	return nil
}

func hasState(err error, states ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(states, pg.Code)
}

func (c *Cluster) pgdata() string { return filepath.Join(c.cfg.DataDir, "cluster") }

func (c *Cluster) env() []string {
	return []string{"PATH=" + c.bin.dir + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
}

// run runs one of PostgreSQL's programs as the cluster's owner.
func (c *Cluster) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin.dir, program), args...)
	cmd.Env, cmd.Dir = c.env(), c.cfg.DataDir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner.credential, Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, lastLines(string(out), 3))
	}
	return nil
}
