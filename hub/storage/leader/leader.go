// Package leader runs services on exactly one hub: sweepers, expiry, retention. Elector
// is its type.
//
// The leader is the hub that holds a PostgreSQL advisory lock, on a connection that is
// used for nothing else. There is no lease and no clock to agree on: the lock ends with
// its session, and the session with the leader.
//
//	candidate --- lock taken ---> leader: services start
//	leader --- connection lost, or silent for CheckTimeout ---> services stop --> candidate
//	leader --- stopped ---> services stop, lock released ---> (end)
//
// What happens if the leader
//   - is killed: its kernel closes the connection, and the next candidate gets
//     the lock at its next attempt, within Retry;
//   - hangs, or its machine or network fails: the server ends the session when
//     nothing arrived on it for SessionTimeout, and releases the lock; the
//     leader's own check fails within Check + CheckTimeout, which is less, so that
//     its services have been stopped before another's start.
//
// A service may still finish what it was doing then: each of its writes is one
// transaction that is harmless if repeated.
package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

const (
	// lockKey is "deckhand" as a number; the database is the hubs' own.
	lockKey = 0x6465636b68616e64

	defaultCheck          = 2 * time.Second
	defaultCheckTimeout   = 3 * time.Second
	defaultSessionTimeout = 9 * time.Second
	closeTimeout          = 5 * time.Second
)

// Config says where the lock is and how often to check it.
type Config struct {
	// DatabaseURL names the database. A pooler before it must keep sessions
	// apart.
	DatabaseURL string
	Log         hclog.Logger
	// Check is the interval at which the leader checks its session, and a candidate tries
	// to become leader: 0 for 2 s. CheckTimeout limits a check: 0 for 3 s. SessionTimeout
	// is when the server ends a session on which nothing arrived: 0 for 9 s; it must be
	// more than the other two together.
	Check, CheckTimeout, SessionTimeout time.Duration
}

// Elector is a lifecycle.Service.
type Elector struct {
	lifecycle.Runner

	cfg      Config
	services []named
	leading  atomic.Bool
}

type named struct {
	name    string
	service lifecycle.Service
}

// New creates an Elector.
func New(cfg Config) (*Elector, error) {
	fill := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	fill(&cfg.Check, defaultCheck)
	fill(&cfg.CheckTimeout, defaultCheckTimeout)
	fill(&cfg.SessionTimeout, defaultSessionTimeout)
	if cfg.DatabaseURL == "" || cfg.SessionTimeout <= cfg.Check+cfg.CheckTimeout {
		return nil, errors.New("leader: a database is needed, and a session time-out above check and its time-out together")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Elector{cfg: cfg}, nil
}

// Add appends a service that runs while this process leads; call it before
// Start. It is started and stopped any number of times.
func (e *Elector) Add(name string, s lifecycle.Service) {
	e.services = append(e.services, named{name, s})
}

// Leading reports whether this process leads.
func (e *Elector) Leading() bool { return e.leading.Load() }

// Start starts the election. It does not wait for the outcome.
func (e *Elector) Start(ctx context.Context) error { return e.Run(ctx, e.loop) }

func (e *Elector) loop(ctx context.Context) error {
	retry := backoff.Policy{Base: e.cfg.Check, Max: 2 * e.cfg.Check}
	failing := false
	for {
		err := e.term(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			e.cfg.Log.Warn("cannot take part in the leader election; will try again", "error", err)
		}
		failing = err != nil
		if backoff.Wait(ctx, retry.Delay(1)) != nil {
			return nil
		}
	}
}

// term uses one connection: it tries to take the lock until it has it, and leads until
// the connection breaks. It returns the connection's error.
func (e *Elector) term(ctx context.Context) error {
	pool, err := store.Parse(e.cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("read the database's URL: %w", err)
	}
	cfg := pool.ConnConfig
	cfg.RuntimeParams["application_name"] = store.LeaderApplication
	cfg.RuntimeParams["idle_session_timeout"] = strconv.FormatInt(e.cfg.SessionTimeout.Milliseconds(), 10)
	conn, err := pgx.ConnectConfig(ctx, cfg) // which has a time-out for each host
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		// Closing ends the session, and with it the lock.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	for {
		trying, cancel := context.WithTimeout(ctx, e.cfg.CheckTimeout)
		locked, err := Take(trying, conn)
		cancel()
		if err != nil {
			return err
		}
		if locked {
			return e.lead(ctx, conn)
		}
		if backoff.Wait(ctx, e.cfg.Check) != nil {
			return nil
		}
	}
}

// Take takes the leader's lock for as long as the connection lasts, and reports whether it has:
// it does not while a hub runs on the database.
func Take(ctx context.Context, conn *pgx.Conn) (taken bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(lockKey)).Scan(&taken); err != nil {
		return false, fmt.Errorf("try for the leader's lock: %w", err)
	}
	return taken, nil
}

// ask sends one question on the session, within the time that the leader has.
func (e *Elector) ask(ctx context.Context, conn *pgx.Conn, into *bool, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CheckTimeout)
	defer cancel()
	return conn.QueryRow(ctx, sql, args...).Scan(into)
}

// lead runs the services until the session or ctx ends, or one of them ends.
func (e *Elector) lead(ctx context.Context, conn *pgx.Conn) error {
	e.cfg.Log.Info("this hub is the leader")
	e.leading.Store(true)
	defer e.leading.Store(false)
	var group lifecycle.Group
	for _, n := range e.services {
		group.Add(n.name, n.service)
	}
	if err := group.Start(ctx); err != nil {
		return fmt.Errorf("start what the leader does: %w", err)
	}
	defer group.Stop()
	tick := time.NewTicker(e.cfg.Check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-group.Done():
			return fmt.Errorf("what the leader does ended: %w", group.Err())
		case <-tick.C:
		}
		var alive bool
		if err := e.ask(ctx, conn, &alive, "SELECT true"); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			e.cfg.Log.Warn("this hub is no longer the leader", "error", err)
			return fmt.Errorf("hold the lock: %w", err)
		}
	}
}
