// Package queue computes the order of a queue: priority first, then fair between the
// users who filled it, then place.
//
// Among tasks of one priority the next turn belongs to the share (a user) with the fewest
// tasks in progress, and among several of these to the one whose last turn is the longest
// ago. A user who submits many tasks therefore delays every other user by at most one
// task, and no user is starved. The share with the empty name goes first: its tasks were
// moved to the front by a user with the right to do so.
//
// The package consists of pure functions and cannot fail. Its callers read the input from
// PostgreSQL: admission, and the computation of a task's position.
package queue

import (
	"cmp"
	"slices"
	"time"
)

// Front is the share that goes before all others of its priority.
const Front = ""

// Entry is what a task's turn depends on.
type Entry struct {
	Share    string
	Priority int32
}

// Turn is the state of a share before its first task is taken.
type Turn struct {
	// Active is how many of its tasks are in progress.
	Active int
	// Served is when its last turn was; zero for never.
	Served time.Time
}

// Walk visits tasks in their order. Tasks of one share and priority come in the order
// given. visit reports whether it took the task, which uses up its share's turn. A task
// that is not taken uses none: the share's next one is visited.
func Walk[T any](tasks []T, entry func(T) Entry, turns map[string]Turn, visit func(T) (took bool, err error)) error {
	byPriority := map[int32]map[string]*lane[T]{}
	for i, task := range tasks {
		e := entry(task)
		lanes := byPriority[e.Priority]
		if lanes == nil {
			lanes = map[string]*lane[T]{}
			byPriority[e.Priority] = lanes
		}
		l := lanes[e.Share]
		if l == nil {
			l = &lane[T]{share: e.Share, first: i}
			lanes[e.Share] = l
		}
		l.tasks = append(l.tasks, task)
	}
	standing := make(map[string]*standing, len(turns))
	priorities := make([]int32, 0, len(byPriority))
	for p := range byPriority {
		priorities = append(priorities, p)
	}
	slices.SortFunc(priorities, func(a, b int32) int { return cmp.Compare(b, a) })
	taken := 0
	for _, p := range priorities {
		lanes := make([]*lane[T], 0, len(byPriority[p]))
		for _, l := range byPriority[p] {
			if l.standing = standing[l.share]; l.standing == nil {
				l.standing = newStanding(turns[l.share])
				standing[l.share] = l.standing
			}
			lanes = append(lanes, l)
		}
		for len(lanes) > 0 {
			next := slices.MinFunc(lanes, compare[T])
			took, err := visit(next.tasks[0])
			if err != nil {
				return err
			}
			if took {
				taken++
				next.standing.active++
				next.standing.taken = taken
			}
			if next.tasks = next.tasks[1:]; len(next.tasks) == 0 {
				lanes = slices.DeleteFunc(lanes, func(l *lane[T]) bool { return l == next })
			}
		}
	}
	return nil
}

// lane is what is left of a share's tasks of one priority.
type lane[T any] struct {
	share    string
	first    int // where its first task was given
	tasks    []T
	standing *standing
}

// standing is the current state of a share.
type standing struct {
	active int
	served time.Time
	// taken is the number of the walk's turn that the share had, from 1; 0 if it had
	// none.
	taken int
}

func newStanding(t Turn) *standing { return &standing{active: t.Active, served: t.Served} }

// compare orders lanes by which has the next turn.
func compare[T any](a, b *lane[T]) int {
	if a.share == Front || b.share == Front {
		return cmp.Compare(a.share, b.share) // "" is before every other
	}
	return cmp.Or(
		cmp.Compare(a.standing.active, b.standing.active),
		cmp.Compare(a.standing.taken, b.standing.taken),
		a.standing.served.Compare(b.standing.served),
		cmp.Compare(a.first, b.first),
	)
}
