package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// hostTimeout is how long one of a database URL's hosts may take to respond, before the
	// next one is tried.
	hostTimeout = 5 * time.Second
	// silence is after how long a connection ends whose other side says nothing: a server
	// whose machine or network is gone closes none.
	silence = 15 * time.Second
)

// Parse returns the settings of a database URL, with those of a pool. The URL may name
// several hosts, of which one is the primary at a time: a connection is made to the first
// that takes writes, and one that was promoted is found by the next connection. A standby is
// never used, whatever target_session_attrs says, since it would give each hub that reaches it the
// leader's lock. The server ends a session whose machine is cut off: until then, the row locks of
// its transaction stop others.
func Parse(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The error may quote the URL, and with it the password.
		return nil, fault.New(fault.Invalid, "database-url is not a PostgreSQL URL").
			WithFix("use postgres://user:password@host:5432/database, with several hosts as host1:5432,host2:5432").WithCause(err)
	}
	to := cfg.ConnConfig
	to.ValidateConnect = takesWrites
	fatal := to.OnPgError
	to.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.Code != readOnly && fatal(conn, err) // false closes the connection
	}
	if to.ConnectTimeout == 0 {
		to.ConnectTimeout = hostTimeout
	}
	setDefaults(to, map[string]string{
		"tcp_keepalives_idle":     strconv.Itoa(int(silence.Seconds()) / 3),
		"tcp_keepalives_interval": strconv.Itoa(int(silence.Seconds()) / 3),
		"tcp_keepalives_count":    "2",
		"tcp_user_timeout":        strconv.FormatInt(silence.Milliseconds(), 10),
	})
	dialer := &net.Dialer{Timeout: to.ConnectTimeout, KeepAlive: silence / 3, Control: endSilent}
	to.DialFunc = dialer.DialContext
	return cfg, nil
}

// setDefaults sets settings of the session that the database's URL does not.
func setDefaults(cfg *pgx.ConnConfig, settings map[string]string) {
	for name, value := range settings {
		if cfg.RuntimeParams[name] == "" {
			cfg.RuntimeParams[name] = value
		}
	}
}

// errStandby is the error of a connection to a server that takes no writes.
var errStandby = errors.New("the server takes no writes")

// takesWrites is target_session_attrs=read-write.
func takesWrites(ctx context.Context, conn *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn)
	if err != nil && ctx.Err() == nil && !conn.IsClosed() {
		return errStandby
	}
	return err
}

// endSilent has the kernel end a TCP connection on which nothing is acknowledged for silence.
func endSilent(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(err, failed)
}

// Connect opens one connection to the database at url, which may have settings of a pool.
// It changes nothing there. A standby will do, if it is the only host.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := Parse(url)
	if err != nil {
		return nil, err
	}
	if len(hosts(cfg.ConnConfig)) == 1 {
		cfg.ConnConfig.ValidateConnect = nil
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, connectFault(cfg.ConnConfig, err)
	}
	return conn, nil
}

// application is how the server names the sessions of a Store, unless the database's URL does.
const application = "deckhand"

// Sessions returns how many sessions of hubs and their tools, that of conn not counted, a database
// has now.
func Sessions(ctx context.Context, conn *pgx.Conn) (n int, err error) {
	names := []string{application, LeaderApplication}
	if named := conn.Config().RuntimeParams["application_name"]; named != "" {
		names = append(names, named)
	}
	err = conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = ANY($1)`, names).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the sessions of hubs: %w", err)
	}
	return n, nil
}

// LeaderApplication is how the server names the session of a hub's leader election.
const LeaderApplication = "deckhand leader"

// TakesWrites refuses a connection to a server that takes no writes, as a standby does.
func TakesWrites(ctx context.Context, conn *pgx.Conn) error {
	if err := takesWrites(ctx, conn.PgConn()); err != nil {
		return connectFault(conn.Config(), err)
	}
	return nil
}

// hosts returns the servers that a database URL names.
func hosts(cfg *pgx.ConnConfig) []string {
	out := []string{fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)}
	for _, other := range cfg.Fallbacks { // the same host again where TLS is optional
		if host := fmt.Sprintf("%s:%d", other.Host, other.Port); !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

func connectFault(cfg *pgx.ConnConfig, err error) error {
	where := fmt.Sprintf("database %q on %s as user %q", cfg.Database, strings.Join(hosts(cfg), ", "), cfg.User)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fault.New(fault.Unavailable, "%s refused the connection: %s", where, pg.Message).
			WithFix("check database-url: its user, password and database name").WithCause(err)
	}
	if errors.Is(err, errStandby) {
		return fault.New(fault.Unavailable, "%s takes no writes", where).
			WithFix("promote the standby, or name the primary in database-url").WithCause(err)
	}
	return fault.New(fault.Unavailable, "cannot reach %s", where).
		WithFix("check database-url and that PostgreSQL runs there").WithCause(err)
}
