// Package postgrestest provides tests with databases of a real PostgreSQL server.
//
// The server is the one that DECKHAND_TEST_DATABASE_URL names, whose user may create
// databases, or else a private cluster for this test process. A guard process stops that
// cluster and removes it as soon as the test process has ended, for whatever reason, so
// that no TestMain is needed and no goroutine is left for a leak check to find. A failure
// to provide a database fails the test.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// EnvURL is the environment variable with the URL of the shared server: of a database of
// it, with a user who may create databases.
const EnvURL = "DECKHAND_TEST_DATABASE_URL"

// server is the one server of this test process.
var server struct {
	once sync.Once
	url  string
	err  error
	// life is the writing end of a pipe: its closing, by whatever ends this
	// process, is what the guard waits for.
	life *os.File
}

// Database returns the URL of a fresh, empty database, dropped when the test
// ends.
func Database(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

// Copy returns the URL of a fresh copy of the database called template, dropped when the
// test ends. If the server has no such database yet, one test process creates it and
// calls fill to write its content; fill must leave no connection open. The name must
// change with the content: a server that other processes share keeps its templates.
func Copy(t testing.TB, template string, fill func(ctx context.Context, url string) error) string {
	t.Helper()
	start(t)
	known, _ := templates.LoadOrStore(template, &oneTemplate{})
	one := known.(*oneTemplate) //nolint:forcetypeassert // nothing else is stored
	if one.once.Do(func() { one.err = ensureTemplate(template, fill) }); one.err != nil {
		t.Fatalf("create the template %s: %v", template, one.err)
	}
	return create(t, template)
}

// templates has a *oneTemplate for each name that this process has requested.
var templates sync.Map

type oneTemplate struct {
	once sync.Once
	err  error
}

func start(t testing.TB) {
	t.Helper()
	server.once.Do(func() {
		if server.url = os.Getenv(EnvURL); server.url == "" {
			server.url, server.life, server.err = startGuarded()
		}
	})
	if server.err != nil {
		t.Fatalf("start a private PostgreSQL: %v", server.err)
	}
}

func create(t testing.TB, template string) string {
	t.Helper()
	start(t)
	name := strings.ReplaceAll(ident.New("test"), "-", "_")
	statement := "CREATE DATABASE " + name
	if template != "" {
		// Copying files takes half as long as logging each page.
		statement += " STRATEGY FILE_COPY TEMPLATE " + template
	}
	must := func(sql string) {
		if err := admin(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	must(statement)
	t.Cleanup(func() { must("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)") })
	u, err := databaseURL(name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func databaseURL(name string) (string, error) {
	u, err := url.Parse(server.url)
	if err != nil {
		return "", fmt.Errorf("%s is not a URL", EnvURL)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// ensureTemplate creates a template unless the server has it. It is filled under
// another name first, so that a database with the template's name is complete.
func ensureTemplate(template string, fill func(ctx context.Context, url string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// Of all test processes one fills it. The lock ends with the connection.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", template); err != nil {
		return err
	}
	var found bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", template).Scan(&found); err != nil || found {
		return err
	}
	unfinished := template + "_unfinished"
	if err := admin("DROP DATABASE IF EXISTS " + unfinished + " WITH (FORCE)"); err != nil {
		return err
	}
	if err := admin("CREATE DATABASE " + unfinished); err != nil {
		return err
	}
	at, err := databaseURL(unfinished)
	if err != nil {
		return err
	}
	if err := fill(ctx, at); err != nil {
		return err
	}
	return admin("ALTER DATABASE " + unfinished + " RENAME TO " + template)
}

func admin(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.url)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer conn.Close(ctx)
	for {
		_, err := conn.Exec(ctx, sql)
		if err == nil {
			return nil
		}
		// A vacuum of the server's own is in the database that is dropped, which
		// only a superuser could end, or a connection that was closed has not
		// ended there yet: both are over soon.
		var e *pgconn.PgError
		if !errors.As(err, &e) || (e.Code != "42501" && e.Code != "55006") || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// guard runs the server until its standard input ends, that is, until the test process
// has ended, and then removes its files. $0 is the folder.
const guard = `"$@" >"$0/log" 2>&1 </dev/null & server=$!
while read -r _; do :; done
kill -QUIT "$server" && wait "$server"
rm -rf "$0"`

func startGuarded() (string, *os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "deckhand-pg-")
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // for the user postgres
		return "", nil, err
	}
	cluster, err := postgres.Config{DataDir: filepath.Join(dir, "pg"), Fast: true}.Complete(ctx)
	if err != nil {
		return "", nil, err
	}
	if err := cluster.Prepare(ctx); err != nil {
		return "", nil, err
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	defer pr.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, dir}, cluster.Command()...)...)
	cmd.Stdin = pr
	// The guard stays the test's own user, so that it can remove the folder.
	// The server drops its rights below.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c := cluster.Credential(); c != nil {
		cmd.Args = append(cmd.Args[:4:4], append([]string{
			"setpriv", fmt.Sprintf("--reuid=%d", c.Uid), fmt.Sprintf("--regid=%d", c.Gid), "--clear-groups", "--",
		}, cluster.Command()...)...)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	if err := cluster.AwaitReady(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		pw.Close()
		return "", nil, fmt.Errorf("%w: %s", err, log)
	}
	return cluster.URL("postgres"), pw, nil
}
