package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Every table with an organisation's data has a column with its id.
func TestEveryTableCarriesItsOrganisation(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	again, err := store.Open(t.Context(), url)
	require.NoError(t, err, "opening twice is harmless")
	again.Close()

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT t.table_name FROM information_schema.tables t
		WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND NOT EXISTS (
			SELECT 1 FROM information_schema.columns c
			WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.column_name = 'org_id')
		ORDER BY 1`)
	require.NoError(t, err)
	without, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"cluster_secrets",  // of the installation itself, sealed
		"goose_db_version", // the schema's own version
		"hub_replicas",     // of the installation itself
		"keysets",          // the installation's own, encrypted
		"knowledge_words",  // of a collection
		"login_attempts",   // before anybody is known, by hash
		"memory_words",     // hashes, of a scope
		"oauth_clients",    // programs that nobody has connected yet are of no organisation
		"organisations",    // is the organisation
		"restores",         // of the installation itself
		"transitions",      // the moves between states
	}, without)
}

// No hub starts on a database into which a part of a backup was restored, or that was adopted in
// part, and the operator is told to repeat what was begun: an adopted database is the only copy.
func TestAnUnfinishedRestoreIsRefused(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.RefuseUnfinished(t.Context()))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for begun, fix := range map[store.Operation]string{
		store.Restoring: "empty the database and run deckhand backup restore again",
		store.Adopting:  "run deckhand backup adopt again",
	} {
		for _, op := range []store.Operation{begun, store.Restoring, store.Adopting} {
			require.NoError(t, store.BeginUnfinished(t.Context(), conn, op))
		}
		err = s.RefuseUnfinished(t.Context())
		require.True(t, fault.Is(err, fault.Precondition), "%v", err)
		require.Equal(t, fix, fault.As(err).Fix)
		_, err = conn.Exec(t.Context(), "DROP TABLE "+store.Unfinished)
		require.NoError(t, err)
	}
}

// An index in one collation is of no use to a comparison in another: what
// belongs to a task would be searched from end to end.
func TestNamesAreOfOneCollation(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c
		JOIN information_schema.tables t USING (table_schema, table_name)
		LEFT JOIN information_schema.key_column_usage k USING (table_schema, table_name, column_name)
		WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type = 'text' AND c.collation_name IS NULL
		  AND (c.column_name = 'id' OR c.column_name LIKE '%\_id' OR k.position_in_unique_constraint IS NOT NULL)
		ORDER BY 1`)
	require.NoError(t, err)
	without, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, without, `declare the column as text COLLATE "C"`)
}

func TestReferencesNameOneThing(t *testing.T) {
	t.Parallel()
	type row = db.FindTasksRow
	id, err := store.One("task", "task_ab", []row{{ID: "task_ab", Exact: true}, {ID: "task_abc"}}, nil)
	require.NoError(t, err, "a whole id is not ambiguous")
	require.Equal(t, "task_ab", id)
	_, err = store.One("task", "task_a", []row{{ID: "task_ab"}, {ID: "task_ac"}}, nil)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = store.One("task", "x", []row{}, nil)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)

	require.Equal(t, `task\_3q%`, store.Prefix("task", "task_3q"))
	require.Equal(t, `task\_3q%`, store.Prefix("task", "3q"))
	require.Equal(t, `task\_\%\_%`, store.Prefix("task", "%_"), "a reference is no pattern")
	require.Empty(t, store.Prefix("task", "task_"), "a kind alone names nothing")
	require.Empty(t, store.Prefix("task", ""))
}

// A transaction is whole or nothing, also in the statements that go with BEGIN
// and with COMMIT, and leaves a connection that can be used again.
func TestTransactionsAreWholeOrNothing(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), postgrestest.Database(t)+"&pool_max_conns=1")
	require.NoError(t, err)
	t.Cleanup(s.Close)
	ctx := t.Context()
	organisation := func(q *db.Queries, id, name string) error {
		_, err := q.CreateOrganisation(ctx, db.CreateOrganisationParams{ID: id, Name: name})
		return err
	}
	user := func(q *db.Queries, id, org string) error {
		_, err := q.CreateUser(ctx, db.CreateUserParams{ID: id, OrgID: org, Name: id, Role: "admin"})
		return err
	}
	names := func() int {
		var n int
		require.NoError(t, s.Tx(ctx, func(q *db.Queries) error {
			for _, name := range []string{"first", "last", "query"} {
				if _, err := q.TokenByHash(ctx, db.TokenByHashParams{Hash: []byte(name), TouchAfter: time.Hour, LoginWithin: time.Hour}); err == nil {
					n++
				}
			}
			return nil
		}))
		return n
	}
	require.NoError(t, s.Tx(ctx, func(*db.Queries) error { return nil }), "an empty one")
	require.NoError(t, s.TxThen(ctx, func(_, last *db.Queries) error { return organisation(last, "org_a", "a") }), "last ones only")
	require.NoError(t, s.TxThen(ctx, func(q, last *db.Queries) error {
		if err := organisation(q, "org_b", "b"); err != nil {
			return err
		}
		return user(last, "user_b", "org_b")
	}))

	ahead := func(q *db.Queries) error { return organisation(q, "org_d", "d") }
	require.NoError(t, s.TxLocked(ctx, ahead, func(q, last *db.Queries) error {
		return errors.Join(user(q, "user_d", "org_d"), user(last, "user_e", "org_d")) // its statements see what went ahead
	}))
	require.NoError(t, s.TxLocked(ctx, func(q *db.Queries) error { return organisation(q, "org_e", "e") },
		func(_, last *db.Queries) error { return user(last, "user_f", "org_e") }), "ahead and last ones only")
	require.Error(t, s.TxLocked(ctx, func(q *db.Queries) error { return user(q, "user_x", "org_none") },
		func(q, _ *db.Queries) error { return organisation(q, "org_x", "x") }), "what goes ahead fails")
	require.Zero(t, names(), "the only connection can be used again")

	for what, fn := range map[string]func(q, last *db.Queries) error{
		"the first statement fails": func(q, _ *db.Queries) error { return user(q, "user_x", "org_none") },
		"a middle one fails": func(q, _ *db.Queries) error {
			if err := organisation(q, "org_x", "x"); err != nil {
				return err
			}
			return user(q, "user_x", "org_none")
		},
		"a last one fails": func(q, last *db.Queries) error {
			if err := organisation(q, "org_x", "x"); err != nil {
				return err
			}
			return user(last, "user_x", "org_none")
		},
		"fn fails": func(q, last *db.Queries) error {
			return errors.Join(organisation(q, "org_x", "x"), user(last, "user_x", "org_x"), errors.New("no"))
		},
		"an error that fn does not answer": func(q, _ *db.Queries) error {
			if err := organisation(q, "org_x", "x"); err != nil {
				return err
			}
			_ = user(q, "user_x", "org_none")
			return nil
		},
	} {
		require.Error(t, s.TxThen(ctx, fn), what)
		require.Zero(t, names(), "the only connection can be used again after: "+what)
		err := s.Tx(ctx, func(q *db.Queries) error { return user(q, "user_y", "org_x") })
		require.True(t, store.Violates(err, "users_org_id_fkey"), "org_x is not there after: %s: %v", what, err)
	}

	cancelled, cancel := context.WithCancel(ctx)
	require.Error(t, s.Tx(cancelled, func(q *db.Queries) error {
		if err := organisation(q, "org_x", "x"); err != nil {
			return err
		}
		cancel()
		return nil
	}), "its context ends before the commit")
	err = s.Tx(ctx, func(q *db.Queries) error { return user(q, "user_y", "org_x") })
	require.True(t, store.Violates(err, "users_org_id_fkey"), "%v", err)

	rows := 0
	require.NoError(t, s.Tx(ctx, func(q *db.Queries) error {
		orgs, err := q.OrganisationsWithQueue(ctx) // many rows first
		rows = len(orgs)
		return errors.Join(err, organisation(q, "org_c", "c"))
	}))
	require.Zero(t, rows)
	require.NoError(t, s.Tx(ctx, func(q *db.Queries) error { return user(q, "user_c", "org_c") }))
}

func TestGoneIsTheDatabasesAbsenceAndNothingElse(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.GetTask(t.Context(), db.GetTaskParams{OrgID: "o", ID: "t"})
	require.True(t, store.IsNotFound(err))
	require.False(t, store.Gone(err))
	require.False(t, store.Gone(nil))
	require.False(t, store.Gone(context.DeadlineExceeded), "the caller's own time ended")

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "SELECT 1/0")
	require.False(t, store.Gone(err))
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())")
	require.True(t, store.Gone(err), "%v", err)
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.True(t, store.Gone(err), "%v", err)
	_, err = pgx.Connect(t.Context(), "postgres://nobody@127.0.0.1:9/nothing")
	require.True(t, store.Gone(err), "%v", err)
}
