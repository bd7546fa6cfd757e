package step

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
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

// files are files that were written: how many, and the size of the largest in bytes.
type files struct{ written, largest int64 }

// fileCounter counts the files that runs have written.
type fileCounter struct{ cfg *Config }

// add adds to the outcome of a step that changed files how many files its task has
// written in all, and how large the largest is (run_files, run_largest_file in bytes): the
// worker compares them with the limits of the run. They are sums over the steps, which count a
// file again that is written again or deleted; where such a sum reaches a limit, the node counts
// by its snapshots, each file once. If it cannot, the sums hold.
func (f fileCounter) add(ctx context.Context, t db.Task, step db.Step, r tool.Result) tool.Result {
	if r.Workspace.GetFiles() == 0 || step.NodeID == nil || r.WorkspaceNode != "" && r.WorkspaceNode != *step.NodeID {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	own, complete := listed(r.Workspace)
	if !complete {
		counted, err := f.ask(ctx, step, []string{r.Workspace.GetId()})
		if err != nil {
			f.cfg.Log.Warn("cannot count the files that a step has changed", "task_id", step.TaskID, "step_id", step.ID, "error", err)
			counted = files{int64(r.Workspace.GetFiles()), own.largest}
		}
		own = counted
	}
	row, err := f.cfg.Store.AddWrittenFiles(ctx, db.AddWrittenFilesParams{OrgID: step.OrgID, ID: step.TaskID, Files: own.written, Largest: own.largest})
	if err != nil {
		f.cfg.Log.Warn("cannot add the files that a step has changed", "task_id", step.TaskID, "step_id", step.ID, "error", err)
		return r
	}
	sum := files{row.WrittenFiles, row.LargestFile}
	most, err := f.limits(ctx, t)
	if err != nil {
		f.cfg.Log.Warn("cannot read the limits of files of a task", "task_id", step.TaskID, "error", err)
	}
	if sum.written >= most.written || sum.largest >= most.largest {
		exact, err := f.recount(ctx, step, r.Workspace.GetId(), sum)
		if err != nil {
			f.cfg.Log.Warn("cannot count the files that a task has changed", "task_id", step.TaskID, "error", err)
			exact = sum
		}
		sum = exact
	}
	if r.Outcome == nil {
		r.Outcome = map[string]any{}
	}
	r.Outcome["run_files"], r.Outcome["run_largest_file"] = sum.written, sum.largest
	return r
}

// listed returns the files that a change has written, and whether it lists all of them.
func listed(change *nodev1.WorkspaceChange) (f files, complete bool) {
	for _, c := range change.GetChanges() {
		if c.GetAfter().GetType() == "file" && c.GetKind() != nodev1.ChangeKind_CHANGE_KIND_METADATA {
			f.written++
			f.largest = max(f.largest, c.GetAfter().GetSize())
		}
	}
	return f, len(change.GetChanges()) == int(change.GetFiles())
}

// limits returns the limits of a run.
func (f fileCounter) limits(ctx context.Context, t db.Task) (files, error) {
	p, err := f.cfg.Agents.PersonaOf(ctx, f.cfg.Store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return files{}, err
	}
	own, err := task.OverrideOf(t)
	if err != nil {
		return files{}, err
	}
	return files{cmp.Or(own.Limits.Files, p.Limits.Files), cmp.Or(own.Limits.FileSize, p.Limits.FileSize)}, nil
}

// recount has the node count the files that a task has written, with the change that is yet to
// be stored, and replaces the task's sums.
func (f fileCounter) recount(ctx context.Context, step db.Step, change string, sum files) (files, error) {
	ids, err := f.cfg.Store.ChangesOfTask(ctx, db.ChangesOfTaskParams{
		OrgID: step.OrgID, TaskID: step.TaskID, NodeID: *step.NodeID, JailID: step.JailID, MaxRows: maxCountedChanges,
	})
	if err != nil {
		return files{}, fmt.Errorf("read the changes of %s: %w", step.TaskID, err)
	}
	exact, err := f.ask(ctx, step, append(ids, change))
	if err != nil {
		return files{}, err
	}
	return exact, f.cfg.Store.SetWrittenFiles(ctx, db.SetWrittenFilesParams{
		OrgID: step.OrgID, ID: step.TaskID, Files: exact.written, Largest: exact.largest, WasFiles: sum.written, WasLargest: sum.largest,
	})
}

// ask asks a step's node for the files that changes have written, each once.
func (f fileCounter) ask(ctx context.Context, step db.Step, ids []string) (files, error) {
	node, err := f.cfg.Node(*step.NodeID)
	if err != nil {
		return files{}, err
	}
	counted, err := node.Snapshots().GetChanges(ctx, &nodev1.GetChangesRequest{JailId: step.JailID, Range: &nodev1.ChangeRange{By: ids}, Limit: 1})
	if err != nil {
		return files{}, fault.FromGRPC(err)
	}
	written := counted.GetFiles()
	if counted.Written != nil { //nolint:protogetter // an older node does not set it
		written = counted.GetWritten()
	}
	return files{int64(written), counted.GetLargestBytes()}, nil
}
