package step

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// countTimeout is how long the end of a step waits for the node to count the files that
	// its task has changed.
	countTimeout = 10 * time.Second
	// maxCountedChanges is how many changes of a task are counted, the latest ones.
	maxCountedChanges = 9_999
)

// countFiles adds to the outcome of a step that changed files how many files its task has
// changed in all, and how large the largest is (run_files, run_largest_file in bytes): the
// worker compares them with the limits of the run. The node counts them by its snapshots, each
// file once. If it cannot be asked, the outcome stays as it is, and the next step is counted.
func countFiles(ctx context.Context, cfg Config, step db.Step, r tool.Result) tool.Result {
	if r.Workspace.GetFiles() == 0 || step.NodeID == nil || r.WorkspaceNode != "" && r.WorkspaceNode != *step.NodeID {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	ids, err := cfg.Store.ChangesOfTask(ctx, db.ChangesOfTaskParams{
		OrgID: step.OrgID, TaskID: step.TaskID, NodeID: *step.NodeID, JailID: step.JailID, MaxRows: maxCountedChanges,
	})
	if err != nil {
		cfg.Log.Warn("cannot count the files that a task has changed", "task_id", step.TaskID, "error", err)
		return r
	}
	node, err := cfg.Node(*step.NodeID)
	if err != nil {
		return r
	}
	counted, err := node.Snapshots().GetChanges(ctx, &nodev1.GetChangesRequest{
		JailId: step.JailID, Range: &nodev1.ChangeRange{By: append(ids, r.Workspace.GetId())}, Limit: 1,
	})
	if err != nil {
		cfg.Log.Info("a node cannot count the files that a task has changed", "task_id", step.TaskID, "error", fault.FromGRPC(err))
		return r
	}
	written := counted.GetFiles()
	if counted.Written != nil { //nolint:protogetter // an older node does not set it
		written = counted.GetWritten()
	}
	if r.Outcome == nil {
		r.Outcome = map[string]any{}
	}
	r.Outcome["run_files"], r.Outcome["run_largest_file"] = written, counted.GetLargestBytes()
	return r
}
