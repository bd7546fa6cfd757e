package rotation_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/maintenance/rotation"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

var patience = waittest.Limit(60 * time.Second)

// hub is the part of a hub that takes part in a rotation.
type hub struct {
	*rotation.Rotation

	store *store.Store
	vault *vault.Vault
}

func newHub(t *testing.T, database, keyset string, settle time.Duration) *hub {
	t.Helper()
	s, err := store.Open(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	root, err := vault.OpenRoot("file://" + keyset)
	require.NoError(t, err)
	v, err := vault.New(t.Context(), root, s)
	require.NoError(t, err)
	recorder := event.NewRecorder(event.RecorderConfig{
		Store: s, Redact: &redact.Redactor{}, Notify: func(string, string) {},
	})
	return &hub{rotation.New(rotation.Config{
		Store: s, Recorder: recorder, Vault: v, Settle: settle, Every: 10 * time.Millisecond, Blocks: 1, Log: hclog.NewNullLogger(),
	}), s, v}
}

// put seals a secret under a name, as hubs keep their own.
func (h *hub) put(ctx context.Context, name string) error {
	sealed, err := h.vault.Seal([]byte("value of "+name), "secret "+name)
	if err != nil {
		return err
	}
	_, err = h.store.CreateSecret(ctx, db.CreateSecretParams{Name: name, Sealed: sealed})
	return err
}

func (h *hub) holds(t *testing.T, name string) {
	t.Helper()
	sealed, err := h.store.LoadSecret(t.Context(), name)
	require.NoError(t, err)
	value, err := h.vault.Open(sealed, "secret "+name)
	require.NoError(t, err, name)
	require.Equal(t, "value of "+name, string(value))
}

// The data key is replaced while two hubs encrypt and decrypt; the leader stops in the
// middle, and another continues; in the end nothing needs the old key, which is deleted,
// and every value is there.
func TestTheKeyIsReplacedWhileHubsWork(t *testing.T) {
	t.Parallel()
	database, keyset := storetest.Database(t), filepath.Join(t.TempDir(), "keyset.json")
	first, second := newHub(t, database, keyset, time.Second), newHub(t, database, keyset, time.Second)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `INSERT INTO organisations (id, name) VALUES ('org_1', 'org_1')`)
	require.NoError(t, err)
	const before = 2000
	for i := range before {
		require.NoError(t, first.put(t.Context(), fmt.Sprintf("before-%d", i)))
	}
	started, err := second.Begin(t.Context(), "org_1", event.Actor{Kind: event.User, ID: "ann"})
	require.NoError(t, err)
	require.Equal(t, 2, started.Keys)
	_, err = first.Begin(t.Context(), "org_1", event.Actor{Kind: event.User, ID: "ben"})
	require.ErrorContains(t, err, "the keys are being rotated")

	// Both seal all the while; one of them learns of the new key late.
	ctx, stop := context.WithCancel(t.Context())
	var written atomic.Int64
	done := make(chan error, 1)
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			h := first
			if i%2 == 0 {
				h = second
			}
			if err := h.put(t.Context(), fmt.Sprintf("during-%d", i)); err != nil {
				done <- err
				return
			}
			written.Add(1)
			if i%20 == 0 {
				if err := first.vault.Refresh(t.Context()); err != nil {
					done <- err
					return
				}
			}
		}
		done <- nil
	}()
	require.Eventually(t, func() bool { return written.Load() > 10 }, patience, time.Millisecond)
	require.NoError(t, first.Start(t.Context()))
	old := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM cluster_secrets WHERE substring(sealed FROM 1 FOR 5) <> $1`, vault.Prefix(started.Primary)).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return old() < before }, patience, time.Millisecond, "some are sealed anew")
	first.Stop() // in the middle of it, on all but the quickest machines
	require.NoError(t, second.Start(t.Context()))
	t.Cleanup(second.Stop)
	require.Eventually(t, func() bool {
		state, err := first.Get(t.Context())
		require.NoError(t, err)
		return state.RotatingSince == nil && state.Keys == 1 && state.Primary == started.Primary
	}, patience, 10*time.Millisecond, "the old key to be deleted")
	stop()
	require.NoError(t, <-done)
	require.Zero(t, old())
	third := newHub(t, database, keyset, time.Second) // one that starts now
	for i := range before {
		third.holds(t, fmt.Sprintf("before-%d", i))
	}
	for i := range written.Load() {
		third.holds(t, fmt.Sprintf("during-%d", i))
		first.holds(t, fmt.Sprintf("during-%d", i))
	}
	var actions []string
	rows, err := conn.Query(t.Context(), `SELECT action || ' by ' || actor_id FROM audit_entries WHERE action LIKE 'vault.%' ORDER BY id`)
	require.NoError(t, err)
	actions, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"vault.rotated by ann", "vault.keys_deleted by hub"}, actions)
}

// An old key is kept for as long as something cannot be opened that it may have
// sealed.
func TestAKeyIsKeptForWhatCannotBeOpened(t *testing.T) {
	t.Parallel()
	database := storetest.Database(t)
	h := newHub(t, database, filepath.Join(t.TempDir(), "keyset.json"), time.Millisecond)
	require.NoError(t, h.put(t.Context(), "good"))
	sealed, err := h.vault.Seal([]byte("x"), "of something else")
	require.NoError(t, err)
	_, err = h.store.CreateSecret(t.Context(), db.CreateSecretParams{Name: "bad", Sealed: sealed})
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `INSERT INTO organisations (id, name) VALUES ('org_1', 'org_1')`)
	require.NoError(t, err)
	_, err = h.Begin(t.Context(), "org_1", event.Actor{Kind: event.User, ID: "ann"})
	require.NoError(t, err)
	for range 3 {
		require.ErrorContains(t, h.Proceed(t.Context()), "cannot be opened")
	}
	h.holds(t, "good")
	state, err := h.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, state.Keys)
}

// Every column that is sealed takes part.
func TestEverySealedColumnIsKnown(t *testing.T) {
	t.Parallel()
	database := storetest.Database(t)
	s, err := store.Open(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	rows, err := conn.Query(t.Context(), `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type = 'bytea' AND column_name LIKE '%sealed%' ORDER BY 1`)
	require.NoError(t, err)
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var known []string
	for _, c := range store.SealedColumns {
		known = append(known, c.Table+"."+c.Name)
		// The statement is one, and finds nothing here.
		values, err := s.SealedOtherwise(t.Context(), c, vault.Prefix(1), 0, 10)
		require.NoError(t, err, c.Table)
		require.Empty(t, values)
	}
	require.ElementsMatch(t, have, known, "name it in store.SealedColumns")
}
