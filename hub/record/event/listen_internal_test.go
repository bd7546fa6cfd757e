package event

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// subscriptions counts those of a bus, whose events are told by hand.
type subscriptions struct {
	mu     sync.Mutex
	begun  int
	ended  int
	refuse error
	tell   func(taskID string)
}

func (s *subscriptions) SubscribeEvents(_ string, fn func(taskID string)) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.begun++
	s.tell = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
	}, nil
}

func (*subscriptions) SubscribeThinking(string, string, func([]byte)) (func(), error) {
	return func() {}, nil
}

// The watches of an organisation share one subscription, which begins with the first and ends
// with the last of them; each hears of its own tasks.
func TestWatchesShareASubscription(t *testing.T) {
	t.Parallel()
	bus := &subscriptions{}
	l := listeners{hints: bus}
	join := func(taskIDs ...string) (<-chan struct{}, func()) {
		hint := make(chan struct{}, 1)
		leave, err := l.join(t.Context(), "org_1", taskIDs, hint)
		require.NoError(t, err)
		return hint, leave
	}
	heard := func(hint <-chan struct{}) bool {
		select {
		case <-hint:
			return true
		default:
			return false
		}
	}
	for round := 1; round <= 2; round++ {
		one, leaveOne := join("task_1")
		both, leaveBoth := join("task_1", "task_2")
		all, leaveAll := join()
		require.Equal(t, round, bus.begun)
		bus.tell("task_2")
		require.Equal(t, []bool{false, true, true}, []bool{heard(one), heard(both), heard(all)})
		bus.tell("task_1")
		bus.tell("task_1") // who has not looked yet looks once
		require.Equal(t, []bool{true, true, true}, []bool{heard(one), heard(both), heard(all)})
		require.Equal(t, []bool{false, false, false}, []bool{heard(one), heard(both), heard(all)})
		leaveBoth()
		bus.tell("task_1")
		require.Equal(t, []bool{true, false, true}, []bool{heard(one), heard(both), heard(all)})
		leaveOne()
		require.Equal(t, round-1, bus.ended)
		leaveAll()
		require.Equal(t, round, bus.ended)
		require.Empty(t, l.orgs)
	}
	bus.refuse = errors.New("the bus is closed")
	_, err := l.join(t.Context(), "org_1", nil, make(chan struct{}, 1))
	require.ErrorIs(t, err, bus.refuse)
	require.Empty(t, l.orgs)
}

// Many watches that come and go at once leave nothing behind.
func TestWatchesJoinAndLeaveAtOnce(t *testing.T) {
	t.Parallel()
	bus := &subscriptions{}
	l := listeners{hints: bus}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				leave, err := l.join(t.Context(), "org_1", []string{"task_1"}, make(chan struct{}, 1))
				if err != nil {
					t.Error(err)
					return
				}
				leave()
			}
		})
	}
	all.Wait()
	require.Empty(t, l.orgs)
	require.Equal(t, bus.begun, bus.ended)
}

// gated lets a subscription wait until it is told how it ends.
type gated struct {
	subscriptions

	asked chan chan error
}

func (g *gated) SubscribeEvents(org string, fn func(taskID string)) (func(), error) {
	end := make(chan error)
	g.asked <- end
	if err := <-end; err != nil {
		return nil, err
	}
	return g.subscriptions.SubscribeEvents(org, fn)
}

// A watch that joins while the first one subscribes can leave, and tries for itself when that
// has failed.
func TestAWatchDoesNotFailForAnother(t *testing.T) {
	t.Parallel()
	bus := &gated{asked: make(chan chan error)}
	l := listeners{hints: bus}
	type joined struct {
		leave func()
		err   error
	}
	join := func(ctx context.Context) <-chan joined {
		done := make(chan joined, 1)
		go func() {
			leave, err := l.join(ctx, "org_1", nil, make(chan struct{}, 1))
			done <- joined{leave, err}
		}()
		return done
	}
	first := join(t.Context())
	end := <-bus.asked
	ctx, cancel := context.WithCancel(t.Context())
	gone, second := join(ctx), join(t.Context())
	cancel()
	require.ErrorIs(t, (<-gone).err, context.Canceled)
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.orgs["org_1"].joined
	}
	for waiting() < 2 {
		runtime.Gosched()
	}
	broken := errors.New("the bus is closed")
	end <- broken
	require.ErrorIs(t, (<-first).err, broken)
	end = <-bus.asked
	end <- nil
	got := <-second
	require.NoError(t, got.err)
	got.leave()
	require.Empty(t, l.orgs)
	require.Equal(t, 1, bus.begun)
	require.Equal(t, 1, bus.ended)
}
