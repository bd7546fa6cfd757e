// Package task manages tasks: one run of an agent towards one goal each. It defines the
// states and the transitions between them, and Service submits, finds, pauses, resumes,
// assigns, retries and cancels tasks.
//
// The transitions are in the table below. The database has the same table and refuses any
// other transition, so that no code path can bypass it.
package task

import (
	"slices"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// State is the state of a task.
type State string

// The states.
const (
	Pending          State = "pending"
	Queued           State = "queued"
	Starting         State = "starting"
	Running          State = "running"
	Waiting          State = "waiting"
	AwaitingApproval State = "awaiting_approval"
	NeedsInput       State = "needs_input"
	Paused           State = "paused"
	ReviewNeeded     State = "review_needed"
	Escalated        State = "escalated"
	Succeeded        State = "succeeded"
	Failed           State = "failed"
	TimedOut         State = "timed_out"
	Cancelled        State = "cancelled"
)

// kind is what the code knows about a state: everything that asks about a group of states
// asks one of the predicates below, so that a new state is one row of the table, one value
// of the API's enum and one migration.
type kind struct {
	// next are the states that a task may move to from it; none from a final state.
	next []State
	// parked says that the task has no slot and the processes in its workspace are frozen.
	parked bool
	// asks says that an item of the inbox asks a person to decide how it goes on.
	asks bool
}

// states is the table of all states.
var states = map[State]kind{
	// To succeeded: a person did it by hand.
	Pending:  {next: []State{Queued, Succeeded, Cancelled}},
	Queued:   {next: []State{Starting, Paused, TimedOut, Cancelled}},
	Starting: {next: []State{Running, Queued, Failed, Escalated, Cancelled}},
	Running: {next: []State{
		Queued, Waiting, AwaitingApproval, NeedsInput, Paused, ReviewNeeded,
		Escalated, Succeeded, Failed, TimedOut, Cancelled,
	}},
	Waiting:          {next: []State{Queued, Paused, Failed, TimedOut, Cancelled}},
	AwaitingApproval: {next: []State{Queued, TimedOut, Cancelled}, parked: true, asks: true},
	NeedsInput:       {next: []State{Queued, TimedOut, Cancelled}, parked: true, asks: true},
	Paused:           {next: []State{Queued, Failed, TimedOut, Cancelled}, parked: true},
	ReviewNeeded:     {next: []State{Succeeded, Queued, Failed, Cancelled}, asks: true},
	Escalated:        {next: []State{Queued, Failed, Cancelled}, asks: true},
	Succeeded:        {},
	Failed:           {},
	TimedOut:         {},
	Cancelled:        {},
}

// Transitions returns a copy of the table: every state, and its possible next states.
func Transitions() map[State][]State {
	out := make(map[State][]State, len(states))
	for from, of := range states {
		out[from] = slices.Clone(of.next)
	}
	return out
}

// States returns the names of all states, sorted.
func States() []string {
	out := make([]string, 0, len(states))
	for s := range states {
		out = append(out, string(s))
	}
	slices.Sort(out)
	return out
}

// OpenStates returns the names of the states that are not final, sorted.
func OpenStates() []string {
	return slices.DeleteFunc(States(), func(name string) bool { return State(name).Final() })
}

// Final reports whether the state never changes again.
func (s State) Final() bool { return len(states[s].next) == 0 }

// Parked reports whether the task makes no progress until a person acts: it has no slot,
// and the processes in its workspace are frozen.
func (s State) Parked() bool { return states[s].parked }

// Asks reports whether an item of the inbox asks a person how the task goes on.
func (s State) Asks() bool { return states[s].asks }

// WaitsForPerson reports whether the task goes on only when a person acts.
func (s State) WaitsForPerson() bool { return s.Parked() || s.Asks() }

// May reports whether a task in state s may move to another state.
func (s State) May(to State) bool { return slices.Contains(states[s].next, to) }

func refuse(id string, from, to State) *fault.Error {
	e := fault.New(fault.Precondition, "task %s is %s and cannot become %s", id, from, to).WithObject(id)
	if from.Final() {
		e = e.WithFix("it has ended; run it again with: deckhand task retry %s", id)
	}
	return e
}
