package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/storage/leader"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// term is one stretch of leading.
type term struct {
	who   string
	begun bool
}

// work reports when it begins and ends, and counts how many instances run at once.
type work struct {
	lifecycle.Runner

	who   string
	terms chan term
	now   *atomic.Int32
	most  *atomic.Int32
}

func (w *work) Start(ctx context.Context) error {
	return w.Run(ctx, func(ctx context.Context) error {
		if n := w.now.Add(1); n > w.most.Load() {
			w.most.Store(n)
		}
		w.terms <- term{w.who, true}
		<-ctx.Done()
		w.now.Add(-1)
		w.terms <- term{w.who, false}
		return nil
	})
}

type election struct {
	t     *testing.T
	url   string
	terms chan term
	now   atomic.Int32
	most  atomic.Int32
}

func (e *election) stand(who string) *leader.Elector {
	e.t.Helper()
	l, err := leader.New(leader.Config{DatabaseURL: e.url, Check: 100 * time.Millisecond, CheckTimeout: 5 * time.Second, SessionTimeout: 8 * time.Second})
	require.NoError(e.t, err)
	l.Add("work", &work{who: who, terms: e.terms, now: &e.now, most: &e.most})
	require.NoError(e.t, l.Start(context.WithoutCancel(e.t.Context())))
	e.t.Cleanup(l.Stop)
	return l
}

func (e *election) next() term {
	e.t.Helper()
	select {
	case got := <-e.terms:
		return got
	case <-time.After(waittest.Limit(30 * time.Second)):
		require.FailNow(e.t, "nothing changed")
		return term{}
	}
}

// One hub does the leader's work, and another takes over.
func TestOneLeadsAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	e := &election{t: t, url: postgrestest.Database(t), terms: make(chan term, 100)}
	first := e.stand("a")
	require.Equal(t, term{"a", true}, e.next())
	require.True(t, first.Leading())
	second := e.stand("b")

	// In order: the lock is given back at once.
	first.Stop()
	require.Equal(t, term{"a", false}, e.next())
	require.Equal(t, term{"b", true}, e.next())
	require.False(t, first.Leading())
	require.True(t, second.Leading())

	// The leader's connection is cut: its work ends, and another elector becomes leader.
	e.stand("c")
	begin := time.Now()
	conn, err := pgx.Connect(t.Context(), e.url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()`)
	require.NoError(t, err)
	ended, begun := 0, 0
	for range 2 {
		if e.next().begun {
			begun++
		} else {
			ended++
		}
	}
	require.Equal(t, 1, ended)
	require.Equal(t, 1, begun)
	require.Less(t, time.Since(begin), waittest.Limit(15*time.Second))
}

// A leader that hangs with its connection open loses its session, and with it the lock,
// without waiting for the kernel to detect it.
func TestASilentSessionLosesTheLock(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hung, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	hung.RuntimeParams["idle_session_timeout"] = "1000"
	conn, err := pgx.ConnectConfig(t.Context(), hung)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var locked bool
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_try_advisory_lock($1)", int64(0x6465636b68616e64)).Scan(&locked))
	require.True(t, locked)

	e := &election{t: t, url: url, terms: make(chan term, 10)}
	e.stand("next")
	require.Equal(t, term{"next", true}, e.next())
}

// The first server that the URL names is silent, as one whose machine has lost power: the lock is
// taken on the next one.
func TestASilentServerHoldsUpNoElection(t *testing.T) {
	t.Parallel()
	e := &election{t: t, url: postgrestest.BehindHosts(t, postgrestest.Database(t), postgrestest.Silent(t)), terms: make(chan term, 10)}
	e.stand("a")
	require.Equal(t, term{"a", true}, e.next())
}

func TestASessionTimeoutMustOutlastTheChecks(t *testing.T) {
	t.Parallel()
	_, err := leader.New(leader.Config{DatabaseURL: "postgres://x", Check: time.Second, CheckTimeout: time.Second, SessionTimeout: time.Second})
	require.ErrorContains(t, err, "time-out")
}
