package store

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
)

// catalogue lists what a schema consists of. The order of columns is not compared: no query
// depends on it.
const catalogue = `
SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' not null=' || a.attnotnull
       || ' collation=' || a.attcollation::text || ' default=' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint ' || coalesce(conrelid::regclass::text, '') || ' ' || conname || ' ' || pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
UNION ALL SELECT 'function ' || pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prokind IN ('f', 'p')
  AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.objid = p.oid AND e.deptype = 'e')
UNION ALL SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = 'public'
UNION ALL SELECT 'type ' || t.typname || ' ' || coalesce((SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid), '')
FROM pg_type t WHERE t.typnamespace = 'public'::regnamespace AND t.typtype IN ('e', 'd')
ORDER BY 1`

// A database of a release that had migrations with higher numbers than some that were merged
// later gets those as well, and has the same schema as a new one in the end.
func TestMigrationsThatWereMergedLaterAreApplied(t *testing.T) {
	t.Parallel()
	schema := func(earlier fs.FS) []string {
		url := postgrestest.Database(t)
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		sql := stdlib.OpenDB(*config)
		defer sql.Close()
		if earlier != nil {
			provider, err := goose.NewProvider(goose.DialectPostgres, sql, earlier)
			require.NoError(t, err)
			_, err = provider.Up(t.Context())
			require.NoError(t, err)
		}
		provider, err := newProvider(sql)
		require.NoError(t, err)
		applied, err := provider.Up(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, applied)
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		defer conn.Close(t.Context())
		rows, err := conn.Query(t.Context(), catalogue)
		require.NoError(t, err)
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return out
	}
	// What a release of before had: up to 591, without five that were merged after it.
	files, err := fs.Sub(migrations, "migrations")
	require.NoError(t, err)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	later := []string{"00540", "00580", "00581", "00582", "00583"}
	earlier := fstest.MapFS{}
	for _, name := range names {
		if number, _, _ := strings.Cut(name, "_"); number <= "00591" && !slices.Contains(later, number) {
			text, err := fs.ReadFile(files, name)
			require.NoError(t, err)
			earlier[name] = &fstest.MapFile{Data: text}
		}
	}
	require.Equal(t, schema(nil), schema(earlier))
}
