package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// commitPause is the time between two bare commits: often enough for a median,
// and no load worth speaking of.
const commitPause = 50 * time.Millisecond

// bareCommitName is how results name that peer.
const bareCommitName = "one bare INSERT, committed"

// bareCommit is the peer of what ends in several commits: one row inserted and
// committed by itself, again and again, while the measurement runs beside it, so
// that both meet the same machine and the same load.
type bareCommit struct {
	stop context.CancelFunc
	done chan struct{}
	took []time.Duration
	err  error
}

// startBareCommit begins committing to the database of s.
func startBareCommit(ctx context.Context, s *stack) (*bareCommit, error) {
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS bare_commits (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL)`); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	running, stop := context.WithCancel(ctx)
	b := &bareCommit{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		defer conn.Close(context.WithoutCancel(ctx))
		tick := time.NewTicker(commitPause)
		defer tick.Stop()
		for {
			select {
			case <-running.Done():
				return
			case <-tick.C:
			}
			began := time.Now()
			if _, err := conn.Exec(ctx, `INSERT INTO bare_commits (payload) VALUES ($1)`, `{"command":"true"}`); err != nil {
				b.err = err
				return
			}
			b.took = append(b.took, time.Since(began))
		}
	}()
	return b, nil
}

// end stops committing and returns the median of one commit in milliseconds.
func (b *bareCommit) end() (float64, error) {
	b.stop()
	<-b.done
	if b.err != nil {
		return 0, b.err
	}
	if len(b.took) == 0 {
		return 0, errors.New("no bare commit was measured")
	}
	slices.Sort(b.took)
	return percentile(b.took, 50), nil
}
