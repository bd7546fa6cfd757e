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

// transitions maps each state to the states that a task may move to from it.
var transitions = map[State][]State{
	// To succeeded: a person did it by hand.
	Pending:  {Queued, Succeeded, Cancelled},
	Queued:   {Starting, Paused, TimedOut, Cancelled},
	Starting: {Running, Queued, Failed, Escalated, Cancelled},
	Running: {
		Queued, Waiting, AwaitingApproval, NeedsInput, Paused, ReviewNeeded,
		Escalated, Succeeded, Failed, TimedOut, Cancelled,
	},
	Waiting:          {Queued, Paused, Failed, TimedOut, Cancelled},
	AwaitingApproval: {Queued, TimedOut, Cancelled},
	NeedsInput:       {Queued, TimedOut, Cancelled},
	Paused:           {Queued, Failed, TimedOut, Cancelled},
	ReviewNeeded:     {Succeeded, Queued, Failed, Cancelled},
	Escalated:        {Queued, Failed, Cancelled},
	Succeeded:        nil,
	Failed:           nil,
	TimedOut:         nil,
	Cancelled:        nil,
}

// Transitions returns a copy of the table: every state, and its possible next states.
func Transitions() map[State][]State {
	out := make(map[State][]State, len(transitions))
	for from, to := range transitions {
		out[from] = slices.Clone(to)
	}
	return out
}

// States returns the names of all states, sorted.
func States() []string {
	out := make([]string, 0, len(transitions))
	for s := range transitions {
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
func (s State) Final() bool { return len(transitions[s]) == 0 }

// Parked reports whether the task makes no progress until a person acts: it has no slot,
// and the processes in its workspace are frozen.
func (s State) Parked() bool { return s == Paused || s == AwaitingApproval || s == NeedsInput }

// May reports whether a task in state s may move to another state.
func (s State) May(to State) bool { return slices.Contains(transitions[s], to) }

func refuse(id string, from, to State) *fault.Error {
	e := fault.New(fault.Precondition, "task %s is %s and cannot become %s", id, from, to).WithObject(id)
	if from.Final() {
		e = e.WithFix("it has ended; run it anew with: deckhand task retry %s", id)
	}
	return e
}
