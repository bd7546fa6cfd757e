// Package store is the hub's PostgreSQL database: the one source of truth. Store runs
// queries and transactions. Queries are in queries/*.sql and generated into db by sqlc;
// the schema and its invariants are in migrations/*.sql.
//
// Losing the connection loses nothing: every change is one transaction, and what was not
// committed did not happen.
package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaDigest returns a digest of all migrations, in hexadecimal: it changes
// whenever the schema may.
func SchemaDigest() string {
	sum := sha256.New()
	// Walking what is embedded cannot fail.
	_ = fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := migrations.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))
}

// Latest returns the version of this release's schema.
func Latest() (latest int64, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("list the migrations: %w", err)
	}
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("the migration %s has no number: %w", name, err)
		}
		latest = max(latest, v)
	}
	return latest, nil
}

// Store is a pool of connections and the queries on it.
type Store struct {
	*db.Queries

	pool *pgxpool.Pool
	// schema is the version of this release's schema.
	schema int64
}

// maxConns is how many connections a hub opens at most, unless the URL sets
// pool_max_conns. Its transactions wait for the disk, not for a processor.
const maxConns = 32

// Open connects to the database at url and brings its schema up to date. Many
// hubs may do so at once: the migration holds a lock.
func Open(ctx context.Context, url string) (*Store, error) {
	cfg, err := Parse(url)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = maxConns
	}
	setDefaults(cfg.ConnConfig, map[string]string{
		"application_name": application,
		// The hub's statements are short and always the same: planning them each time costs
		// more than running them.
		"plan_cache_mode": "force_generic_plan", "jit": "off",
		// A hub that hangs in a transaction keeps its row locks no longer.
		"idle_in_transaction_session_timeout": "60000",
	})
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, connectFault(cfg.ConnConfig, err)
	}
	s := &Store{Queries: db.New(pool), pool: pool}
	if err := s.migrate(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Current reports whether the database responds and has the schema of this release, or a
// later one's: hubs of two releases may share a database during an update.
func (s *Store) Current(ctx context.Context) error {
	version, err := s.SchemaVersion(ctx)
	if err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	if version < s.schema {
		return fmt.Errorf("the database's schema is of version %d, this hub's of %d", version, s.schema)
	}
	return nil
}

// SchemaOf returns the version of the schema of the database at url, and 0 for a database
// without one. It changes nothing.
func SchemaOf(ctx context.Context, url string) (version int64, err error) {
	conn, err := Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return SchemaOn(ctx, conn)
}

// SchemaOn is SchemaOf for a database that is connected.
func SchemaOn(ctx context.Context, conn *pgx.Conn) (int64, error) {
	var version int64
	err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == undefinedTable {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the database's schema: %w", err)
	}
	return version, nil
}

// restoredAgain is how many events are read again for each destination, and for the search, after a restore:
// the order by id differs slightly from the order of commits.
const restoredAgain = 10_000

// newProvider returns what applies the migrations. A database may lack some whose numbers are
// below its version, since branches that were developed side by side had ranges of numbers of
// their own: they are applied as well.
func newProvider(on *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("make migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, on, files, goose.WithSessionLocker(locker), goose.WithAllowOutofOrder(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return provider, nil
}

func (s *Store) migrate(ctx context.Context) error {
	sqlDB := stdlib.OpenDBFromPool(s.pool)
	defer sqlDB.Close()
	provider, err := newProvider(sqlDB)
	if err != nil {
		return err
	}
	for _, source := range provider.ListSources() {
		s.schema = max(s.schema, source.Version)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the database schema up to date: %w", err)
	}
	if _, err := s.RebaseEventHeads(ctx); err != nil {
		return fmt.Errorf("bring the heads of restored events into order: %w", err)
	}
	if _, err := s.RebaseEvents(ctx); err != nil {
		return fmt.Errorf("bring restored events into order: %w", err)
	}
	if _, err := s.RebaseDestinations(ctx, restoredAgain); err != nil {
		return fmt.Errorf("rebase the positions of destinations after a restore: %w", err)
	}
	if _, err := s.RebaseSearch(ctx, restoredAgain); err != nil {
		return fmt.Errorf("rebase how far the search has read after a restore: %w", err)
	}
	if _, err := s.RebasePrunedEvents(ctx); err != nil {
		return fmt.Errorf("bring what was deleted of restored events into order: %w", err)
	}
	return nil
}

// Pool returns how the pool of connections does.
func (s *Store) Pool() *pgxpool.Stat { return s.pool.Stat() }

// Close ends all connections.
func (s *Store) Close() { s.pool.Close() }

// IsNotFound reports whether a query for one row answered none.
func IsNotFound(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Text returns the text of a column, empty for NULL.
func Text(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}

// Violates reports whether err is the violation of that constraint or unique index.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

// likeEscaper makes text match itself in a LIKE pattern.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// minPrefix is the least of an id that is taken as a prefix, so that a kind
// such as "task_" alone names nothing.
const minPrefix = 2

// Prefix is the LIKE pattern for ids that begin with ref. A ref without a kind
// is taken as the random part: "3q9x" means "task_3q9x…".
func Prefix(kind, ref string) string {
	random, ok := strings.CutPrefix(ref, kind+"_")
	if !ok {
		random = ref
	}
	if len(random) < minPrefix {
		return "" // matches only an empty id, which does not exist
	}
	return likeEscaper.Replace(kind+"_"+random) + "%"
}

// Match is a row of the Find queries.
type Match struct {
	ID string
	// Exact reports that the reference was the whole id or name.
	Exact bool
}

// One returns the only id that a Find query found for a reference: the exact
// one, or the one whose id begins with it.
func One[R ~struct {
	ID    string
	Exact bool
}](kind, ref string, rows []R, err error,
) (string, error) {
	switch {
	case err != nil:
		return "", fmt.Errorf("find %s %s: %w", kind, ref, err)
	case len(rows) == 0:
		return "", fault.New(fault.NotFound, "there is no %s %q", kind, ref).
			WithFix("list what there is with: deckhand %s list", kind).WithObject(ref)
	}
	first := Match(rows[0])
	if len(rows) > 1 && !first.Exact {
		return "", fault.New(fault.Invalid, "%q names more than one %s", ref, kind).WithFix("give more of the id").WithObject(ref)
	}
	return first.ID, nil
}
