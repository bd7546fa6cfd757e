package artifact_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// rig is artifacts on a database, with a clock that is moved by hand and nodes
// that are connected or not. What is tested here asks no node for anything.
type rig struct {
	*tasktest.Fixture

	artifacts *artifact.Artifacts
	now       time.Time
	away      map[string]bool
}

func newRig(t *testing.T) *rig {
	r := &rig{Fixture: tasktest.New(t), away: map[string]bool{}}
	r.artifacts = artifact.New(artifact.Config{
		Store: r.Store, Recorder: r.Recorder, Redact: &redact.Redactor{},
		Node: func(id string) (machine.Link, error) {
			if r.away[id] {
				return nil, fault.New(fault.Unavailable, "node %s is not connected", id)
			}
			return nil, nil
		},
		JailOf: func(_ context.Context, t db.Task) (*nodev1.JailSpec, error) {
			return &nodev1.JailSpec{JailId: t.JailID}, nil
		},
		Now: func() time.Time { return r.now },
	})
	return r
}

// A source that stays offline is waited for, for an hour from the promise; then the task
// begins without its files, and its agent is told.
func TestASourceThatStaysAwayIsGivenUpOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.User("ann", "admin")
	source, home := r.Node("source"), r.Node("home")
	agent := r.Agent("reader", persona.ScopeAgent)
	c := &artifact.Collection{
		OrgID: tasktest.Org, From: artifact.Place{NodeID: source, Jail: &nodev1.JailSpec{JailId: "jail_source"}},
		Entries: []*nodev1.UploadEntry{{Path: "report.md", Type: "file", Size: 1, Digest: "d"}, {Path: "data", Type: "dir"}},
	}
	given := r.Submit(agent, "ann", func(s *task.Submission) {
		s.With = func(ctx context.Context, tx *event.Tx, t db.Task) error {
			return r.artifacts.Promise(ctx, tx, c, t, "artifacts/them", tasktest.By("ann"))
		}
	})
	r.Exec("UPDATE tasks SET node_id = $2 WHERE id = $1", given.ID, home)
	given = r.Task(given.ID)
	promised, _, err := r.artifacts.OfTask(t.Context(), tasktest.Org, given.ID, "", 10)
	require.NoError(t, err)
	require.Len(t, promised, 1)

	r.away[source] = true
	r.now = promised[0].CreatedAt.Add(59 * time.Minute)
	err = r.artifacts.Deliver(t.Context(), given)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	after, _, err := r.artifacts.OfTask(t.Context(), tasktest.Org, given.ID, "", 10)
	require.NoError(t, err)
	require.Equal(t, "pending", after[0].State, "it is still waited for")

	r.now = promised[0].CreatedAt.Add(61 * time.Minute)
	require.NoError(t, r.artifacts.Deliver(t.Context(), given))
	after, _, err = r.artifacts.OfTask(t.Context(), tasktest.Org, given.ID, "", 10)
	require.NoError(t, err)
	require.Equal(t, "failed", after[0].State)
	require.Equal(t, []string{"report.md", "data"}, after[0].Missing)
	var told string
	require.NoError(t, r.SQL.QueryRow(t.Context(), "SELECT content FROM task_messages WHERE task_id = $1", given.ID).Scan(&told))
	require.Contains(t, told, `"report.md", "data"`)
	require.Contains(t, told, "artifacts/them")
	require.Contains(t, told, "the machine that they are on was away for an hour")
	require.NoError(t, r.artifacts.Deliver(t.Context(), given), "once")
}

// A node that is too old for it is not called, and the error names the node and what to
// do.
func TestANodeThatIsTooOldIsNotAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old, newer, newest := r.Node("old"), r.Node("newer"), r.Node("newest")
	for id, capability := range map[string]int{old: 3, newer: 4, newest: 5} {
		r.Exec("UPDATE nodes SET capability = $2, version = $3 WHERE id = $1", id, capability, fmt.Sprintf("v0.%d", capability))
	}
	place := func(node string) artifact.Place {
		return artifact.Place{NodeID: node, Jail: &nodev1.JailSpec{JailId: "jail_of_" + node}}
	}
	_, err := r.artifacts.Collect(t.Context(), tasktest.Org, "", place(old), []string{"a"})
	require.ErrorContains(t, err, "node old cannot give files to other workspaces: its deckhand-node v0.3 is too old")
	e := fault.As(err)
	require.Equal(t, []any{fault.Precondition, fault.NodeUnavailable}, []any{e.Kind, e.Code})
	require.Contains(t, e.Fix, "update deckhand-node on old")

	c := &artifact.Collection{OrgID: tasktest.Org, From: place(newest), Entries: []*nodev1.UploadEntry{{Path: "a", Type: "dir"}}}
	_, err = r.artifacts.Send(t.Context(), c, place(old), artifact.Options{Folder: "x"})
	require.ErrorContains(t, err, "node old cannot take files from other workspaces")
	c.From = place(old)
	_, err = r.artifacts.Send(t.Context(), c, place(newest), artifact.Options{Folder: "x"})
	require.ErrorContains(t, err, "node old cannot give files")
	c.From, c.Shared = place(newest), true
	_, err = r.artifacts.Send(t.Context(), c, place(newer), artifact.Options{Folder: "x"})
	require.ErrorContains(t, err, "node newer cannot share files for reading only: its deckhand-node v0.4 is too old")
	c.From = place(newer)
	_, err = r.artifacts.Send(t.Context(), c, place(newest), artifact.Options{})
	require.ErrorContains(t, err, "the workspace itself cannot be shared")
}
