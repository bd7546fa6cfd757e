package backup

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// poolParameters are parameters of a database URL that only the hub's driver knows.
var poolParameters = []string{
	"pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime", "pool_max_conn_idle_time", "pool_health_check_period",
	"pool_max_conn_lifetime_jitter", "default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity",
	"plan_cache_mode", "jit", "search_path",
	"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "idle_in_transaction_session_timeout",
}

// forPrograms returns a database URL as PostgreSQL's programs take it, without its
// password, which goes into their environment: others can see arguments.
func forPrograms(databaseURL config.Secret) (string, []string, error) {
	u, err := url.Parse(databaseURL.Reveal())
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", nil, fault.New(fault.Invalid, "database-url is not a PostgreSQL URL").WithFix("use postgres://user:password@host:5432/database")
	}
	env := append(os.Environ(), "LC_ALL=C")
	if password, ok := u.User.Password(); ok {
		env = append(env, "PGPASSWORD="+password)
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	if password := query.Get("password"); password != "" {
		env = append(env, "PGPASSWORD="+password)
		query.Del("password")
	}
	for _, name := range poolParameters {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String(), env, nil
}

// run runs one of PostgreSQL's programs on a database.
func run(ctx context.Context, name string, major int, databaseURL config.Secret, args ...string) error {
	path, err := postgres.Program(name, major)
	if err != nil {
		return err
	}
	var env []string
	if databaseURL != "" {
		target, with, err := forPrograms(databaseURL)
		if err != nil {
			return err
		}
		env, args = with, append([]string{"--dbname=" + target}, args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.New(fault.Unavailable, "%s failed: %s", name, lastLines(stderr.String())).
			WithFix("check that the database runs, that its user may read every table, and that there is room on the disk").WithCause(err)
	}
	return nil
}

const maxLines = 5

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > maxLines {
		lines = lines[len(lines)-maxLines:]
	}
	return strings.Join(lines, " / ")
}

// connect opens a connection and returns the server's major version.
func connect(ctx context.Context, databaseURL config.Secret) (*pgx.Conn, int, error) {
	conn, err := store.Connect(ctx, databaseURL.Reveal())
	if err != nil {
		return nil, 0, err
	}
	var number int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&number); err != nil {
		return nil, 0, fmt.Errorf("ask the database for its version: %w", err)
	}
	return conn, number / 10_000, nil
}

// schemaOf returns the version of a database's schema.
func schemaOf(ctx context.Context, conn *pgx.Conn) (version int64, err error) {
	version, err = store.SchemaOn(ctx, conn)
	if err == nil && version == 0 {
		err = fault.New(fault.Precondition, "the database has no Deckhand schema").WithFix("name the hub's database with --database-url")
	}
	return version, err
}
