package program_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/program"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A program is of a live task of its jail and node whose persona lets it call the hub. With the
// task its access ends.
func TestAProgramIsOfALiveTask(t *testing.T) {
	t.Parallel()
	database := storetest.Database(t)
	s, err := store.Open(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	// The test does without transitions, and without the nodes and agents that rows refer to.
	exec(`ALTER TABLE tasks DISABLE TRIGGER USER`)
	exec(`ALTER TABLE node_execs DISABLE TRIGGER USER, DROP CONSTRAINT IF EXISTS node_execs_node_id_fkey, DROP CONSTRAINT IF EXISTS node_execs_agent_id_fkey`)
	exec(`INSERT INTO organisations (id, name) VALUES ('org_1', 'org_1'), ('org_2', 'org_2')`)
	add := func(id, user string) {
		exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, node_id, created_by, created_by_role, correlation_id, lineage_id)
			VALUES ('` + id + `', 'org_1', 'agent_1', 1, 't', 'g', 'waiting', 'x', 'agent', 'jail_1', 'node_1', '` + user + `', 'advanced', 'c', '` + id + `')`)
	}
	without, review := map[string]bool{}, map[string]bool{}
	p := &program.Programs{Store: s, Persona: func(_ context.Context, t db.Task) (*persona.Persona, error) {
		own := &persona.Persona{HubAccess: !without[t.ID]}
		if review[t.ID] {
			own.Mode = persona.Review
		}
		return own, nil
	}}
	jail := program.Caller{OrgID: "org_1", NodeID: "node_1", JailID: "jail_1"}
	refused := func(c program.Caller, kind fault.Kind, says string) {
		t.Helper()
		id, err := p.Identify(t.Context(), c)
		require.Equal(t, auth.Identity{}, id)
		require.True(t, fault.Is(err, kind), "%v", err)
		require.ErrorContains(t, err, says)
		require.NotEmpty(t, fault.As(err).Fix)
	}

	refused(jail, fault.Unauthenticated, "no task is running")
	add("task_1", "ann")
	id, err := p.Identify(t.Context(), jail)
	require.NoError(t, err)
	assert.Equal(t, auth.Identity{Kind: auth.Program, OrgID: "org_1", TokenID: "program of task_1", TaskID: "task_1", UserName: "ann", Role: "viewer"}, id)
	refused(program.Caller{OrgID: "org_2", NodeID: "node_1", JailID: "jail_1"}, fault.Unauthenticated, "no task is running")
	refused(program.Caller{OrgID: "org_1", NodeID: "node_2", JailID: "jail_1"}, fault.Unauthenticated, "no task is running")
	refused(program.Caller{OrgID: "org_1", NodeID: "node_1", JailID: "jail_2"}, fault.Unauthenticated, "no task is running")

	// Two tasks in one jail: the command says of which it is.
	add("task_2", "ann")
	refused(jail, fault.Denied, "2 tasks share this jail")
	exec(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, state, node_id, jail_id)
		VALUES ('step_2', 'org_1', 'task_2', 1, 1, 0, 'c', 1, 'shell_exec', 'moderate', '{}', '\x00', '\x00', 'started', 'node_1', 'jail_1')`)
	named := jail
	named.ExecID = "step_2"
	id, err = p.Identify(t.Context(), named)
	require.NoError(t, err)
	assert.Equal(t, "task_2", id.TaskID)
	// In review mode it only reads, until the work is accepted.
	review["task_1"] = true
	id, err = p.Identify(t.Context(), named)
	require.NoError(t, err)
	assert.True(t, id.Scope.ReadOnly, "of any task in the jail")
	exec(`UPDATE tasks SET state = 'review_needed' WHERE id = 'task_1'`)
	id, err = p.Identify(t.Context(), named)
	require.NoError(t, err)
	assert.False(t, id.Scope.ReadOnly)
	exec(`UPDATE tasks SET state = 'waiting' WHERE id = 'task_1'`)

	// While another user has a command or terminal in the jail, it could be theirs.
	person := func(id, user, jail string) {
		exec(`INSERT INTO node_execs (id, org_id, node_id, target, agent_id, jail_id, terminal, argv, dir, spec_sealed, reason, user_id, user_name)
			VALUES ('` + id + `', 'org_1', 'node_1', 'jail', 'agent_1', '` + jail + `', true, '{sh}', '', '\x00', '', 'user', '` + user + `')`)
	}
	person("exec_1", "ann", "jail_1")
	person("exec_2", "bob", "jail_2")
	_, err = p.Identify(t.Context(), named)
	require.NoError(t, err)
	person("exec_3", "bob", "jail_1")
	refused(named, fault.Denied, "bob has a command or a terminal in this jail")
	exec(`UPDATE node_execs SET state = 'ended', end_reason = 'exited', finished_at = now() WHERE id = 'exec_3'`)
	_, err = p.Identify(t.Context(), named)
	require.NoError(t, err)

	without["task_1"] = true
	refused(named, fault.Denied, "does not have hub_access")
	without["task_1"] = false
	exec(`UPDATE tasks SET created_by = 'bob' WHERE id = 'task_1'`)
	refused(named, fault.Denied, "share this jail")

	// A task that has ended, or was killed, has no programs any more.
	exec(`UPDATE tasks SET state = 'cancelled', finished_at = now()`)
	refused(named, fault.Unauthenticated, "no task is running")
}
