// Package change announces what a hub has committed to the other parts of the same
// process: a task ended, a step was cancelled, a task may start now.
//
// Each kind of change is a type. The part that makes a change publishes it after
// its transaction, usually with event.Tx.Publish, and does not know who needs it;
// the composition of the hub subscribes those who do. So two parts that react to
// each other need not import each other.
//
// A change is an announcement to this process, not a record: it is not stored, a
// hub that dies between the commit and the announcement makes none, and other
// replicas do not receive it. Subscribers therefore only act sooner than they
// would anyway: a sweep, a poll or a node's next connection finds the same in the
// database.
package change

import (
	"reflect"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Change is one of the types of this package.
type Change interface{ change() }

// TaskEnded announces that a task reached a final state. Task is its new row.
type TaskEnded struct{ Task db.Task }

// TaskWaitChanged announces that a task began to wait for a person, or stopped
// waiting. Task is its new row.
type TaskWaitChanged struct{ Task db.Task }

// TaskTreeChanged announces that a task moved which has a parent or subtasks.
// Task is its new row.
type TaskTreeChanged struct{ Task db.Task }

// StepCancelled announces that a step was cancelled after it had started, so that
// its command may still run. By is the id of who cancelled it.
type StepCancelled struct {
	Step db.Step
	By   string
}

// KillConfirmed announces that a node has killed what was ordered: how the commands ended
// can be asked.
type KillConfirmed struct{ OrgID, NodeID string }

// StepInterrupted announces that a person has the command of a running step killed. The
// step ends as its node reports it. By is the id of that person.
type StepInterrupted struct {
	Step db.Step
	By   string
}

// QueueChanged announces that a queued task of an organisation may be able to
// start: one was queued, or capacity or permission was gained.
type QueueChanged struct{ OrgID string }

// RightsChanged announces that the rights of a user have changed.
type RightsChanged struct{}

// NodeDrainChanged announces that a node was drained, or no longer is.
type NodeDrainChanged struct{ NodeID string }

func (TaskEnded) change()        {}
func (TaskWaitChanged) change()  {}
func (TaskTreeChanged) change()  {}
func (StepCancelled) change()    {}
func (StepInterrupted) change()  {}
func (KillConfirmed) change()    {}
func (QueueChanged) change()     {}
func (RightsChanged) change()    {}
func (NodeDrainChanged) change() {}

// Feed passes changes on to their subscribers. Its zero value is ready to use, and
// a nil Feed drops all changes. Subscriptions are made before the first change is
// published; after that, a Feed may be used by several goroutines.
type Feed struct {
	subscribers map[reflect.Type][]func(Change)
}

// Subscribe calls fn for every change of its type, in the goroutine that publishes
// it. Subscribers of one type are called in the order of their subscription.
func Subscribe[C Change](f *Feed, fn func(C)) {
	if f.subscribers == nil {
		f.subscribers = map[reflect.Type][]func(Change){}
	}
	kind := reflect.TypeFor[C]()
	f.subscribers[kind] = append(f.subscribers[kind], func(c Change) { fn(c.(C)) }) //nolint:forcetypeassert // by its type
}

// Publish calls the subscribers of a change, and returns when all have returned.
func (f *Feed) Publish(c Change) {
	if f == nil {
		return
	}
	for _, fn := range f.subscribers[reflect.TypeOf(c)] {
		fn(c)
	}
}
