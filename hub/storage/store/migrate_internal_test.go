package store

import (
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
)

// The migrations of the inbox go through its rows in batches, without a transaction: rows of
// before get what new ones get, and an attempt that was interrupted is made again from its
// beginning.
func TestALargeInboxIsMigratedInBatches(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	sql := stdlib.OpenDB(*config)
	defer sql.Close()
	files, err := fs.Sub(migrations, "migrations")
	require.NoError(t, err)
	provider, err := goose.NewProvider(goose.DialectPostgres, sql, files)
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 309)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	exec := func(query string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), query)
		require.NoError(t, err)
	}
	count := func(where string) (n int) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM inbox_items WHERE "+where).Scan(&n))
		return n
	}
	const rows = 12_345 // three batches
	// What the items refer to is not made.
	exec(`DO $$ DECLARE c record; BEGIN
		FOR c IN SELECT conrelid::regclass AS of, conname FROM pg_constraint WHERE contype = 'f' AND conrelid IN ('inbox_items'::regclass, 'tasks'::regclass) LOOP
			EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.of, c.conname);
		END LOOP;
	END $$`)
	exec(`INSERT INTO inbox_items (id, org_id, kind, state, task_id, step_id, agent_id, tool, category, arguments, preview, why, binding, on_expiry, answer, answered_by, answered_at)
		SELECT 'inbox_' || n, 'org', 'approval', 'answered', 'task_1', 'step_' || n, 'agent', 'shell_exec', 'safe', '{}', '', '', '{}', '', 'approve', 'ann', clock_timestamp()
		FROM generate_series(1, 12345) AS n`)

	exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, created_by, created_by_role, correlation_id, lineage_id)
		VALUES ('task_1', 'org', 'agent', 1, 't', 'g', 'queued', 'new', 'agent', 'jail', 'ann', 'admin', 'c', 'task_1')`)

	// The task of the last item is not there: the attempt ends half-way, after two batches.
	exec(`UPDATE inbox_items SET task_id = 'task_2' WHERE id = (SELECT max(id) FROM inbox_items)`)
	_, err = provider.Up(t.Context())
	require.ErrorContains(t, err, "inbox_items_task_ref_fkey")
	require.Equal(t, 10_000, count("task_ref = task_id"))
	exec(`UPDATE inbox_items SET task_id = 'task_1' WHERE task_id = 'task_2'`)
	_, err = provider.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, rows, count("place < 300000000000000000 AND place > 200000000000000000 AND alike <> ''"))
	exec(`UPDATE inbox_items SET answered_at = answered_at - interval '1 second' WHERE id = 'inbox_1'`)
	require.Equal(t, rows-1, count("place < (SELECT place FROM inbox_items WHERE id = 'inbox_1')"), "what is newer comes first")
	var invalid int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_index WHERE NOT indisvalid").Scan(&invalid))
	require.Zero(t, invalid)
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_constraint WHERE NOT convalidated").Scan(&invalid))
	require.Zero(t, invalid)

	// And back.
	_, err = provider.DownTo(t.Context(), 309)
	require.NoError(t, err)
	require.Equal(t, rows, count("task_id = 'task_1'"))
}
