// Package tasktest provides fixtures for tests of the queue, without a hub: a database in
// a real PostgreSQL, an organisation, and agents, nodes and workers as rows. A failure to
// create one fails the test.
package tasktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Org is the organisation that all fixtures belong to.
const Org = "org_test"

// TTL is how long a lease lasts.
const TTL = 30 * time.Second

// Fixture is a database with what works on it.
type Fixture struct {
	T        testing.TB
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	Tasks    *task.Service
	Leases   *lease.Leases
	// SQL is a connection for what no query does.
	SQL *pgx.Conn

	url string
	mu  sync.Mutex
	// kicks counts how often admission was asked for.
	kicks int
}

// New creates a Fixture.
func New(t testing.TB) *Fixture {
	t.Helper()
	f := connect(t, storetest.Database(t))
	_, err := f.Store.CreateOrganisation(t.Context(), db.CreateOrganisationParams{ID: Org, Name: "test"})
	require.NoError(t, err)
	return f
}

// Reopen returns the same database on new connections, as another hub has it.
func (f *Fixture) Reopen() *Fixture {
	f.T.Helper()
	return connect(f.T, f.url)
}

func connect(t testing.TB, url string) *Fixture {
	t.Helper()
	ctx := t.Context()
	s, err := store.Open(ctx, url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	f := &Fixture{T: t, Store: s, url: url}
	f.SQL, err = pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.SQL.Close(context.Background())) })
	changes := &change.Feed{}
	change.Subscribe(changes, func(change.QueueChanged) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.kicks++
	})
	f.Recorder = event.NewRecorder(event.RecorderConfig{
		Store: s, Redact: &redact.Redactor{}, Notify: func(string, string) {}, Changes: changes,
	})
	f.Agents = agent.NewService(s, f.Recorder, persona.Vocabulary{})
	f.Tasks = task.NewService(task.Config{Store: s, Recorder: f.Recorder, Agents: f.Agents})
	f.Leases = lease.New(lease.Config{Store: s, Recorder: f.Recorder, TTL: TTL, Jailed: Jailed})
	return f
}

// Jailed reports that every task needs its jail before it runs.
func Jailed(context.Context, *db.Queries, db.Task) (bool, error) { return true, nil }

// Kicks returns how often admission was asked for.
func (f *Fixture) Kicks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kicks
}

// Exec runs a statement.
func (f *Fixture) Exec(sql string, args ...any) {
	f.T.Helper()
	_, err := f.SQL.Exec(f.T.Context(), sql, args...)
	require.NoError(f.T, err)
}

// Agent creates an agent whose tasks have a workspace each, or share one, and returns its
// id.
func (f *Fixture) Agent(name string, scope persona.Scope) string {
	f.T.Helper()
	row, _, err := f.Agents.Apply(f.T.Context(), Org, agent.File{Name: name + ".md", Script: "turns: []\n", Markdown: fmt.Sprintf(`---
name: %s
description: Goes on.
provider: script
script: s.yaml
tools: [complete_task]
limits: {iterations: 5}
workspace: {scope: %s}
---
Go on.
`, name, scope)}, agent.Applier{Actor: event.Actor{Kind: event.User, ID: "test"}, Role: "admin"}, false)
	require.NoError(f.T, err)
	return row.Agent.ID
}

// Node creates a connected node and returns its id.
func (f *Fixture) Node(name string) string {
	f.T.Helper()
	id := "node_" + name
	f.Exec("INSERT INTO nodes (id, org_id, name, key_fingerprint) VALUES ($1, $2, $3, $1)", id, Org, name)
	f.Exec("INSERT INTO node_sessions (node_id, org_id, epoch, replica, connected, touched_at) VALUES ($1, $2, 1, 'r', true, now() + interval '1 day')", id, Org)
	return id
}

// Worker registers a worker and returns its id.
func (f *Fixture) Worker(name string, slots int32) string {
	f.T.Helper()
	id, err := f.Leases.Register(f.T.Context(), Org, lease.Worker{Name: name, Pool: "default", Slots: slots})
	require.NoError(f.T, err)
	return id
}

// User creates a user.
func (f *Fixture) User(name, role string) {
	f.T.Helper()
	_, err := f.Store.CreateUser(f.T.Context(), db.CreateUserParams{ID: "user_" + name, OrgID: Org, Name: name, Role: role})
	require.NoError(f.T, err)
}

// By is a user as an actor.
func By(name string) event.Actor { return event.Actor{Kind: event.User, ID: name} }

// Submit submits a task by a user; change may be nil.
func (f *Fixture) Submit(agentID, by string, change func(*task.Submission)) db.Task {
	f.T.Helper()
	sub := task.Submission{OrgID: Org, AgentID: agentID, Goal: "go on", By: By(by), Role: "admin"}
	if change != nil {
		change(&sub)
	}
	row, err := f.Tasks.Submit(f.T.Context(), sub)
	require.NoError(f.T, err)
	return row.Task
}

// Task reads a task.
func (f *Fixture) Task(id string) db.Task {
	f.T.Helper()
	row, err := f.Tasks.Get(f.T.Context(), Org, id)
	require.NoError(f.T, err)
	return row.Task
}

// Move moves a task, as the hub.
func (f *Fixture) Move(id string, to task.State) {
	f.T.Helper()
	require.NoError(f.T, f.Recorder.Tx(f.T.Context(), func(tx *event.Tx) error {
		t, err := tx.LockTask(f.T.Context(), db.LockTaskParams{OrgID: Org, ID: id})
		if err != nil {
			return err
		}
		_, err = task.Move(f.T.Context(), tx, t, to, "the test says so", event.Hub)
		return err
	}))
}

// Run moves an admitted task to running and returns its lease.
func (f *Fixture) Run(workerID, id string) lease.Lease {
	f.T.Helper()
	le, _, err := f.Leases.Claim(f.T.Context(), Org, workerID, id, f.Task(id).Attempt+1)
	require.NoError(f.T, err)
	require.NotNil(f.T, le, "the claim of %s", id)
	f.Move(id, task.Running)
	return *le
}
