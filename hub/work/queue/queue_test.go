package queue_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/hub/work/queue"
)

type job struct {
	name     string
	share    string
	priority int32
}

func entry(j job) queue.Entry { return queue.Entry{Share: j.share, Priority: j.priority} }

func order(t require.TestingT, jobs []job, turns map[string]queue.Turn, take func(job) bool) []string {
	var out []string
	require.NoError(t, queue.Walk(jobs, entry, turns, func(j job) (bool, error) {
		out = append(out, j.name)
		return take(j), nil
	}))
	return out
}

func all(job) bool { return true }

// Priority first, then in turns, then in the order given.
func TestPriorityThenTurnsThenPlace(t *testing.T) {
	t.Parallel()
	jobs := []job{
		{"a1", "ann", 5}, {"a2", "ann", 5}, {"a3", "ann", 5}, {"b1", "bob", 5}, {"b9", "bob", 9}, {"b2", "bob", 5}, {"front", queue.Front, 5},
	}
	require.Equal(t, []string{"b9", "front", "a1", "b1", "a2", "b2", "a3"}, order(t, jobs, nil, all),
		"bob had a turn at priority 9, so ann is next")
	require.Equal(t, []string{"b9", "front", "b1", "b2", "a1", "a2", "a3"},
		order(t, jobs, map[string]queue.Turn{"ann": {Active: 3}}, all), "ann has three in progress already")
	now := time.Now()
	require.Equal(t, []string{"b1", "a1"}, order(t, []job{{"a1", "ann", 5}, {"b1", "bob", 5}},
		map[string]queue.Turn{"ann": {Served: now}, "bob": {Served: now.Add(-time.Hour)}}, all), "bob's last turn is longer ago")
	require.Equal(t, []string{"a1", "a2", "b1", "b2"}, order(t, []job{{"a1", "ann", 5}, {"a2", "ann", 5}, {"b1", "bob", 5}, {"b2", "bob", 5}},
		nil, func(j job) bool { return j.share == "bob" }), "what cannot start uses no turn")
}

// Every task is visited once, and never before one of a higher priority.
func TestEachIsVisitedOnceByPriority(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		jobs := make([]job, rapid.IntRange(0, 60).Draw(t, "n"))
		for i := range jobs {
			jobs[i] = job{fmt.Sprint(i), rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "share"), int32(rapid.IntRange(1, 10).Draw(t, "priority"))}
		}
		taken := map[string]bool{}
		for _, j := range jobs {
			taken[j.name] = rapid.Bool().Draw(t, "takes")
		}
		names := order(t, jobs, nil, func(j job) bool { return taken[j.name] })
		require.Len(t, names, len(jobs))
		byName := map[string]job{}
		for _, j := range jobs {
			byName[j.name] = j
		}
		require.True(t, slices.IsSortedFunc(names, func(a, b string) int { return cmp.Compare(byName[b].priority, byName[a].priority) }))
		for _, share := range []string{"", "a", "b", "c"} {
			last := map[int32]int{}
			for _, name := range names {
				if j := byName[name]; j.share == share {
					var n int
					_, _ = fmt.Sscan(name, &n)
					require.GreaterOrEqual(t, n, last[j.priority], "a share's own order is kept")
					last[j.priority] = n
				}
			}
		}
	})
}

// Whatever others submit, and however few slots there are, a user whose
// task waits is served within as many starts as there are users.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.IntRange(2, 6).Draw(t, "users")
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		var waiting []job
		turns := map[string]queue.Turn{}
		var running []string
		passed := map[string]int{} // starts of others since a user began to wait with none running
		now := time.Unix(1, 0)
		for step := range 200 {
			// One user floods, the others come now and then.
			for u := range users {
				for range rapid.IntRange(0, 2-min(1, u)).Draw(t, "new") {
					waiting = append(waiting, job{fmt.Sprint(step), fmt.Sprint("u", u), 5})
				}
			}
			if len(running) > 0 && rapid.Bool().Draw(t, "ends") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				turn := turns[running[i]]
				turn.Active--
				turns[running[i]] = turn
				running = slices.Delete(running, i, i+1)
			}
			var left []job
			require.NoError(t, queue.Walk(waiting, entry, turns, func(j job) (bool, error) {
				if len(running) >= slots {
					left = append(left, j)
					return false, nil
				}
				now = now.Add(time.Second)
				running = append(running, j.share)
				turns[j.share] = queue.Turn{Active: turns[j.share].Active + 1, Served: now}
				for u := range users {
					if name := fmt.Sprint("u", u); turns[name].Active == 0 {
						passed[name]++
					} else {
						passed[name] = 0
					}
				}
				return true, nil
			}))
			waiting = left
			present := map[string]bool{}
			for _, j := range waiting {
				present[j.share] = true
			}
			for u := range users {
				name := fmt.Sprint("u", u)
				if !present[name] {
					passed[name] = 0
				}
				if turns[name].Active == 0 {
					require.LessOrEqual(t, passed[name], users, "%s waits and was passed over", name)
				}
			}
		}
	})
}
