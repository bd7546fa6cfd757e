package event

import (
	"errors"
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
		leave, err := l.join("org_1", taskIDs, hint)
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
	_, err := l.join("org_1", nil, make(chan struct{}, 1))
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
				leave, err := l.join("org_1", []string{"task_1"}, make(chan struct{}, 1))
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
