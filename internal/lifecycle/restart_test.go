package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// lives is a service whose n-th run lasts for the n-th time, and then forever;
// a negative one is a start that fails.
type lives struct {
	lifecycle.Runner

	last   []time.Duration
	starts []time.Time
}

var errDied = errors.New("died")

func (l *lives) Start(ctx context.Context) error {
	n := len(l.starts)
	l.starts = append(l.starts, time.Now())
	if n < len(l.last) && l.last[n] < 0 {
		return errDied
	}
	return l.Run(ctx, func(ctx context.Context) error {
		if n >= len(l.last) {
			return untilDone(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.last[n]):
			return errDied
		}
	})
}

func TestAServiceThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &lives{last: []time.Duration{time.Hour, time.Second, -1, time.Hour}}
		r := &lifecycle.Restart{Name: "PostgreSQL", Service: s, Log: hclog.New(&hclog.LoggerOptions{Output: &log})}
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Len(t, s.starts, 5)
		require.EqualValues(t, 3, r.Ends())
		require.False(t, r.Restarting())
		bound, end := 100*time.Millisecond, s.starts[0].Add(time.Hour)
		for i, ran := range []time.Duration{time.Second, 0, time.Hour} {
			wait := s.starts[i+1].Sub(end)
			require.GreaterOrEqual(t, wait, bound/10)
			require.LessOrEqual(t, wait, bound, "the wait doubles")
			bound, end = 2*bound, s.starts[i+1].Add(ran)
		}
		require.LessOrEqual(t, s.starts[4].Sub(end), 100*time.Millisecond, "after a long run it is short again")
		require.Contains(t, log.String(), `part=PostgreSQL error=died ran=1h0m0s next_try_in=`)
		r.Stop()
		<-s.Done()
		require.NoError(t, r.Err())
	})
}

func TestAServiceThatDoesNotStayUpIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		brief := func(n int) (out []time.Duration) {
			for i := range n {
				out = append(out, time.Duration(i%2*2-1)*time.Second) // every other start fails
			}
			return out
		}
		s := &lives{last: append(append([]time.Duration{time.Second}, brief(8)...), 10*time.Second)}
		s.last = append(s.last, brief(20)...)
		r := &lifecycle.Restart{Name: "containerd", Service: s, Fix: "read its log"}
		begin := time.Now()
		require.NoError(t, r.Start(t.Context()))
		<-r.Done()
		require.ErrorContains(t, r.Err(), "containerd ended 10 times in a row within 10s of its start: died: read its log")
		require.ErrorIs(t, r.Err(), errDied)
		require.Len(t, s.starts, 20, "a run of ten seconds begins a new row")
		require.Less(t, time.Since(begin), 2*time.Minute)
	})
}

func TestAStopDoesNotWaitForTheNextStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &lives{last: []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0}}
		r := &lifecycle.Restart{Name: "NATS", Service: s}
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		n := len(s.starts)
		r.Stop()
		require.NoError(t, r.Err())
		require.Len(t, s.starts, n)
	})
	s := &lives{last: []time.Duration{-1}}
	require.ErrorIs(t, (&lifecycle.Restart{Name: "NATS", Service: s}).Start(t.Context()), errDied, "the first start is not repeated")
	require.Len(t, s.starts, 1)
}
