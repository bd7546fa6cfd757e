package step

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

func TestTheDatabaseHoldsTheSameTableOfMoves(t *testing.T) {
	t.Parallel()
	url := storetest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	s.Close()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT from_state, to_state FROM transitions WHERE object = 'step'")
	require.NoError(t, err)
	type move struct{ From, To State }
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[move])
	require.NoError(t, err)
	var want []move
	for from, tos := range transitions {
		for _, to := range tos {
			want = append(want, move{from, to})
		}
	}
	require.ElementsMatch(t, want, got)
}

// Every state of a step is reachable from proposed or held, the two that a step is
// created in; every state that a step may move to has a row of its own, and nothing
// leaves a final state. An unknown outcome is settled by a person or the node, and never
// by running the call as if it had not run.
func TestEveryStateOfAStepIsReached(t *testing.T) {
	t.Parallel()
	seen := map[State]bool{Proposed: true, Deferred: true}
	for queue := []State{Proposed, Deferred}; len(queue) > 0; queue = queue[1:] {
		for _, to := range transitions[queue[0]] {
			require.Contains(t, transitions, to)
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	require.Len(t, seen, len(transitions))
	for _, state := range []State{Denied, Succeeded, Failed, Skipped, Cancelled} {
		require.Empty(t, transitions[state], state)
	}
	require.NotContains(t, transitions[Unknown], Started, "it is granted anew first")
}

// The agent's loop continues after a step that is final, has an unknown outcome, or is
// deferred to the review. It waits for every other step.
func TestTheLoopWaitsForStepsThatHaveNotEnded(t *testing.T) {
	t.Parallel()
	var waits []State
	for state := range transitions {
		if !state.Ended() {
			waits = append(waits, state)
		}
	}
	require.ElementsMatch(t, []State{Proposed, Waiting, Granted, Started}, waits)
}

// The database refuses every transition of a step that is not in the table, for every
// caller.
func TestTheDatabaseRefusesEveryOtherMoveOfAStep(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	task := f.Submit(f.Agent("walker", persona.ScopeTask), "ada", nil)
	n := 0
	for from := range transitions {
		for to := range transitions {
			if from == to {
				continue
			}
			n++
			f.Exec(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments,
				arguments_sealed, arguments_digest, state) VALUES ('step_' || $1::int, $2, $3, $1, $1, 0, 'c', 1, 'shell_exec', 'safe', '{}', '', '', $4)`,
				n, tasktest.Org, task.ID, string(from))
			_, err := f.SQL.Exec(t.Context(), "UPDATE steps SET state = $1 WHERE id = 'step_' || $2::int", string(to), n)
			if slices.Contains(transitions[from], to) {
				require.NoError(t, err, "%s to %s", from, to)
			} else {
				require.True(t, store.Violates(err, "step_transition"), "%s to %s: %v", from, to, err)
			}
		}
	}
}
