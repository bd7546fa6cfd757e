package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type service struct {
	lifecycle.Runner

	fn func(ctx context.Context) error
}

func (s *service) Start(ctx context.Context) error { return s.Run(ctx, s.fn) }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRunnerStopsAndStartsAgain(t *testing.T) {
	s := &service{fn: untilDone}
	s.Stop() // before the first start: nothing to do
	for range 3 {
		require.NoError(t, s.Start(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), lifecycle.ErrRunning)
		s.Stop()
		s.Stop()
		<-s.Done()
		require.NoError(t, s.Err())
	}
}

func TestRunnerKeepsTheErrorOfAFunctionThatEndsByItself(t *testing.T) {
	cause := errors.New("broken")
	s := &service{fn: func(context.Context) error { return cause }}
	require.NoError(t, s.Start(t.Context()))
	<-s.Done()
	require.ErrorIs(t, s.Err(), cause)
}

func TestRunnerUnderStress(t *testing.T) {
	var running, most atomic.Int32
	s := &service{fn: func(ctx context.Context) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-ctx.Done()
		running.Add(-1)
		return nil
	}}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 500 {
				if i%2 == 0 {
					if err := s.Start(t.Context()); err != nil && !errors.Is(err, lifecycle.ErrRunning) {
						t.Error(err)
					}
				} else {
					s.Stop()
				}
			}
		})
	}
	wg.Wait()
	s.Stop()
	require.Zero(t, running.Load())
	require.EqualValues(t, 1, most.Load(), "two runs at once")
}

func TestGroupStopsInReverse(t *testing.T) {
	var order []string
	var g lifecycle.Group
	for _, name := range []string{"database", "hub", "worker"} {
		g.Add(name, &service{fn: func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name)
			return nil
		}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, g.Start(ctx))
	cancel()
	<-g.Done()
	require.NoError(t, g.Err())
	require.Equal(t, []string{"worker", "hub", "database"}, order)
}

func TestGroupStopsAllWhenOneEnds(t *testing.T) {
	die := make(chan struct{})
	cause := errors.New("disk on fire")
	other := &service{fn: untilDone}
	var g lifecycle.Group
	g.Add("database", other)
	g.Add("hub", &service{fn: func(context.Context) error { <-die; return cause }})
	require.NoError(t, g.Start(t.Context()))
	close(die)
	<-g.Done()
	require.EqualError(t, g.Err(), "hub: disk on fire")
	<-other.Done()
}

type failing struct{ service }

func (*failing) Start(context.Context) error { return errors.New("no room") }

func TestGroupUndoesAHalfStart(t *testing.T) {
	first := &service{fn: untilDone}
	var g lifecycle.Group
	g.Add("database", first)
	g.Add("hub", &failing{})
	require.EqualError(t, g.Start(t.Context()), "start hub: no room")
	<-first.Done()
}

func TestLazyMakesItsServiceWhenItsNeighbourRuns(t *testing.T) {
	var address string
	first := &service{}
	first.fn = untilDone
	lazy := &lifecycle.Lazy{Make: func(context.Context) (lifecycle.Service, error) {
		require.NotNil(t, first.Done(), "made before the first one was started")
		address = "known"
		return &service{fn: untilDone}, nil
	}}
	lazy.Stop() // nothing was made yet
	var g lifecycle.Group
	g.Add("first", first)
	g.Add("second", lazy)
	require.NoError(t, g.Start(t.Context()))
	require.Equal(t, "known", address)
	g.Stop()
	<-lazy.Done()
	require.NoError(t, lazy.Err())
}
