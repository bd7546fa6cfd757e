package task_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/work/task"
)

// The table in the code and the one in the database are equal.
func TestTheDatabaseHoldsTheSameTableOfMoves(t *testing.T) {
	t.Parallel()
	conn := migrated(t)
	type move struct{ From, To task.State }
	var want []move
	for from, tos := range task.Transitions() {
		for _, to := range tos {
			want = append(want, move{from, to})
		}
	}
	rows, err := conn.Query(t.Context(), "SELECT from_state, to_state FROM transitions WHERE object = 'task'")
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[move])
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

func migrated(t *testing.T) *pgx.Conn {
	t.Helper()
	url := storetest.Database(t)
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	s.Close()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// Every state is reached from pending, and no path leaves a final one.
func TestEveryStateIsReachableAndFinalOnesEnd(t *testing.T) {
	t.Parallel()
	seen := map[task.State]bool{task.Pending: true}
	for queue := []task.State{task.Pending}; len(queue) > 0; queue = queue[1:] {
		for _, to := range task.Transitions()[queue[0]] {
			require.Contains(t, task.Transitions(), to, "a move leads to a state that has no row")
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	require.Len(t, seen, len(task.Transitions()))
	for _, s := range []task.State{task.Succeeded, task.Failed, task.TimedOut, task.Cancelled} {
		require.True(t, s.Final(), s)
	}
}

// The database refuses what the table does not have.
func TestTheDatabaseRefusesEveryOtherMove(t *testing.T) {
	t.Parallel()
	conn := migrated(t)
	ctx := t.Context()
	_, err := conn.Exec(ctx, `
		INSERT INTO organisations (id, name) VALUES ('org_1', 'one');
		INSERT INTO agents (id, org_id, name) VALUES ('agent_1', 'org_1', 'a');
		INSERT INTO agent_versions (agent_id, version, org_id, markdown, digest, description, provider, model, created_by)
		VALUES ('agent_1', 1, 'org_1', '', '', '', 'script', 'scripted', 'test')`)
	require.NoError(t, err)
	leased := map[task.State]bool{task.Starting: true, task.Running: true}
	const shape = `reason = 'test', lease_hash = CASE WHEN $2 THEN '\x00'::bytea END,
		lease_expires_at = CASE WHEN $2 THEN now() END, finished_at = CASE WHEN $3 THEN now() END`
	n := 0
	for from := range task.Transitions() {
		for to := range task.Transitions() {
			if from == to {
				continue
			}
			n++
			_, err := conn.Exec(ctx, `
				INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, reason, workspace_scope, jail_id,
				                   created_by, created_by_role, correlation_id, state, lease_hash, lease_expires_at, finished_at, lineage_id)
				VALUES ('task_' || $4::int, 'org_1', 'agent_1', 1, '', '', 'test', 'task', 'jail_x', 'test', 'admin', 'c', $1,
				        CASE WHEN $2 THEN '\x00'::bytea END, CASE WHEN $2 THEN now() END, CASE WHEN $3 THEN now() END, 'task_1')`,
				string(from), leased[from], from.Final(), n)
			require.NoError(t, err, from)
			_, err = conn.Exec(ctx, `UPDATE tasks SET state = $1, `+shape+` WHERE id = 'task_' || $4::int`,
				string(to), leased[to], to.Final(), n)
			if from.May(to) {
				require.NoError(t, err, "%s to %s", from, to)
			} else {
				require.True(t, store.Violates(err, "task_transition"), "%s to %s: %v", from, to, err)
			}
		}
	}
}

// A row that contradicts its state is refused, for every writer.
func TestTheDatabaseRefusesWhatAStateCannotBe(t *testing.T) {
	t.Parallel()
	conn := migrated(t)
	ctx := t.Context()
	const insert = `
		INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, reason, workspace_scope, jail_id,
		                   created_by, created_by_role, correlation_id, state, lineage_id)
		VALUES ($1, 'org_1', 'agent_1', 1, '', '', 'test', 'task', 'jail_x', 'test', 'admin', 'c', $2, 'task_1')`
	_, err := conn.Exec(ctx, insert, "task_1", "queued")
	require.NoError(t, err)
	for _, state := range []string{"starting", "running", "succeeded", "unheard"} {
		_, err := conn.Exec(ctx, insert, "task_2", state)
		require.True(t, store.Violates(err, "task_state"), "%s: %v", state, err)
	}
	for _, set := range []string{
		"reason = ''", "agent_id = ''", "finished_at = now()", "state = 'starting'", "state = 'cancelled'",
		`lease_hash = '\x00', lease_expires_at = now()`,
	} {
		_, err := conn.Exec(ctx, "UPDATE tasks SET "+set+" WHERE id = 'task_1'")
		require.True(t, store.Violates(err, "task_state"), "%s: %v", set, err)
	}
}
