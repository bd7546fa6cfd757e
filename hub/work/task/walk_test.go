package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// promised is the documented table of states, which the code's own table is compared
// with.
var promised = map[task.State]string{
	task.Pending:  "queued succeeded cancelled",
	task.Queued:   "starting paused timed_out cancelled",
	task.Starting: "running queued failed escalated cancelled",
	task.Running: "queued waiting awaiting_approval needs_input paused review_needed escalated " +
		"succeeded failed timed_out cancelled",
	task.Waiting:          "queued paused failed timed_out cancelled",
	task.AwaitingApproval: "queued timed_out cancelled",
	task.NeedsInput:       "queued timed_out cancelled",
	task.Paused:           "queued failed timed_out cancelled",
	task.ReviewNeeded:     "succeeded queued failed cancelled",
	task.Escalated:        "queued failed cancelled",
	task.Succeeded:        "",
	task.Failed:           "",
	task.TimedOut:         "",
	task.Cancelled:        "",
}

func allowed(from, to task.State) bool {
	return slices.Contains(strings.Fields(promised[from]), string(to))
}

// states are all of them, in a fixed order.
func states() []task.State {
	var out []task.State
	for s := range promised {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// walker takes one task from state to state.
type walker struct {
	*tasktest.Fixture

	worker, node, id string
	// moves are those that were made, and people how many of them by a person.
	moves  [][2]string
	people int
}

// move tries one move and returns its result. The one into starting is a worker's claim,
// whatever by is.
func (w *walker) move(to task.State, by event.Actor) error {
	t := w.Task(w.id)
	from := task.State(t.State)
	if to == task.Starting && from == task.Queued {
		w.Exec("UPDATE tasks SET admitted_at = now(), node_id = $2 WHERE id = $1", w.id, w.node)
		_, claimed, err := w.Leases.Claim(w.T.Context(), tasktest.Org, w.worker, w.id, t.Attempt+1)
		if err == nil && claimed == nil {
			err = fmt.Errorf("the claim of %s found nothing", w.id)
		}
		if err == nil {
			w.moves = append(w.moves, [2]string{string(from), string(to)})
		}
		return err
	}
	err := w.Recorder.Tx(w.T.Context(), func(tx *event.Tx) error {
		locked, err := tx.LockTask(w.T.Context(), db.LockTaskParams{OrgID: tasktest.Org, ID: w.id})
		if err != nil {
			return err
		}
		_, err = task.Move(w.T.Context(), tx, locked, to, "because of "+string(to), by)
		return err
	})
	if err == nil {
		w.moves = append(w.moves, [2]string{string(from), string(to)})
		if by.Kind == event.User {
			w.people++
		}
	}
	return err
}

// begin creates a pending task that is not assigned.
func (w *walker) begin(agent string) {
	w.moves, w.people = nil, 0
	w.id = w.Submit("", "ada", nil).ID
	w.Exec("UPDATE tasks SET agent_id = $2, agent_version = 1 WHERE id = $1", w.id, agent)
}

// holds looks at what must be true of the task whatever was done to it.
func (w *walker) holds(t require.TestingT) {
	row := w.Task(w.id)
	state := task.State(row.State)
	require.Equal(t, state == task.Starting || state == task.Running, row.LeaseHash != nil, "a lease stands while it starts or runs")
	require.Equal(t, state.Final(), row.FinishedAt != nil)
	if state != task.Running {
		require.NotEmpty(t, row.Reason, "%s says why", state)
	}
	rows, err := w.SQL.Query(w.T.Context(), `SELECT seq, type, payload ->> 'from', payload ->> 'to' FROM events WHERE task_id = $1 ORDER BY seq`, w.id)
	require.NoError(t, err)
	var told [][2]string
	last, seq := int64(0), int64(0)
	var kind string
	var from, to *string
	_, err = pgx.ForEachRow(rows, []any{&seq, &kind, &from, &to}, func() error {
		if seq != last+1 {
			return fmt.Errorf("event %d follows %d", seq, last)
		}
		if last = seq; kind == "state_changed" {
			told = append(told, [2]string{*from, *to})
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, w.moves, told, "every move has its event, in order")
	head := int64(0)
	require.NoError(t, w.SQL.QueryRow(w.T.Context(), "SELECT coalesce(max(seq), 0) FROM event_heads WHERE task_id = $1", w.id).Scan(&head))
	require.Equal(t, head, last)
	audited := 0
	require.NoError(t, w.SQL.QueryRow(w.T.Context(),
		"SELECT count(*) FROM audit_entries WHERE object_id = $1 AND before ->> 'state' IS NOT NULL", w.id).Scan(&audited))
	require.Equal(t, w.people, audited, "every move by a person is audited, and no other")
}

func newWalker(t *testing.T) (*walker, string) {
	t.Helper()
	f := tasktest.New(t)
	f.User("ada", "admin")
	w := &walker{Fixture: f, worker: f.Worker("w", 1), node: f.Node("n")}
	return w, f.Agent("walker", persona.ScopeTask)
}

// In any sequence of moves, a task moves only as the documented table allows, never
// leaves a final state, and each of its moves is in its history, and those of people in
// the audit log too.
func TestATaskGoesOnlyWhereItsTableSays(t *testing.T) {
	t.Parallel()
	w, agent := newWalker(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.begin(agent)
		at := task.Pending
		for range rapid.IntRange(1, 8).Draw(rt, "length") {
			// Mostly along the table: by pure chance few walks would get far.
			to := rapid.SampledFrom(states()).Draw(rt, "anywhere")
			if open := strings.Fields(promised[at]); len(open) > 0 && rapid.IntRange(0, 3).Draw(rt, "along") > 0 {
				to = task.State(rapid.SampledFrom(open).Draw(rt, "to"))
			}
			by := rapid.SampledFrom([]event.Actor{event.Hub, tasktest.By("ada"), {Kind: "worker", ID: "w"}}).Draw(rt, "by")
			err := w.move(to, by)
			if allowed(at, to) {
				require.NoError(rt, err, "%s to %s", at, to)
				at = to
			} else {
				require.True(rt, fault.Is(err, fault.Precondition), "%s to %s: %v", at, to, err)
			}
			require.Equal(rt, string(at), w.Task(w.id).State)
		}
		w.holds(rt)
	})
}

// Each state is reached by the code's own moves, and each move out of it is
// made or refused as promised.
func TestEveryMoveFromEveryState(t *testing.T) {
	t.Parallel()
	w, agent := newWalker(t)
	paths := map[task.State][]task.State{task.Pending: nil}
	for queue := []task.State{task.Pending}; len(queue) > 0; queue = queue[1:] {
		for _, next := range strings.Fields(promised[queue[0]]) {
			if _, known := paths[task.State(next)]; !known {
				paths[task.State(next)] = append(slices.Clone(paths[queue[0]]), task.State(next))
				queue = append(queue, task.State(next))
			}
		}
	}
	require.Len(t, paths, len(task.Transitions()))
	for _, from := range states() {
		begin := func() {
			w.begin(agent)
			for _, step := range paths[from] {
				require.NoError(t, w.move(step, event.Hub), "on the way to %s", from)
			}
		}
		begin()
		for _, to := range states() {
			err := w.move(to, tasktest.By("ada"))
			if !allowed(from, to) {
				require.True(t, fault.Is(err, fault.Precondition), "%s to %s: %v", from, to, err)
				continue
			}
			require.NoError(t, err, "%s to %s", from, to)
			w.holds(t)
			begin()
		}
		w.holds(t)
	}
}
