package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/job"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// jobsOf finds the jobs of a task for its calls.
type jobsOf struct {
	store *store.Store
	task  db.Task
}

var _ tool.Jobs = jobsOf{}

// Job implements tool.Jobs.
func (j jobsOf) Job(ctx context.Context, id string) (tool.Job, error) {
	row, err := j.store.GetJob(ctx, db.GetJobParams{OrgID: j.task.OrgID, TaskID: j.task.ID, ID: id})
	if store.IsNotFound(err) {
		return tool.Job{}, j.unknown(ctx, id)
	}
	if err != nil {
		return tool.Job{}, fmt.Errorf("find job %s: %w", id, err)
	}
	return jobOf(row), nil
}

// unknown returns the error for an id that no job has.
func (j jobsOf) unknown(ctx context.Context, id string) error {
	all, err := j.List(ctx)
	if err != nil {
		return err
	}
	refused := fault.New(fault.NotFound, "this task has no job %q", id).WithCode(fault.InvalidParameters)
	if len(all) == 0 {
		return refused.WithFix("start one: %s with background", toolname.ShellExec)
	}
	var ids []string
	for _, one := range all[:min(len(all), 10)] {
		ids = append(ids, one.ID)
	}
	return refused.WithFix("use one of %s", strings.Join(ids, ", "))
}

// List implements tool.Jobs.
func (j jobsOf) List(ctx context.Context) ([]tool.Job, error) {
	rows, err := j.store.ListJobs(ctx, db.ListJobsParams{OrgID: j.task.OrgID, TaskID: j.task.ID, MaxRows: job.MaxListed})
	if err != nil {
		return nil, fmt.Errorf("list the jobs of %s: %w", j.task.ID, err)
	}
	out := make([]tool.Job, len(rows))
	for i, row := range rows {
		out[i] = jobOf(row)
	}
	return out, nil
}

// recordJob stores what a call did with a job.
func recordJob(ctx context.Context, tx *event.Tx, step db.Step, r tool.Result) error {
	if r.Started != nil {
		if err := job.Create(ctx, tx, step, r.Started); err != nil {
			return err
		}
	}
	if p := r.Progress; p != nil {
		if err := tx.SetJobProgress(ctx, db.SetJobProgressParams{
			OrgID: step.OrgID, TaskID: step.TaskID, ID: p.JobID, ReadBytes: p.ReadBytes, InputBytes: p.InputBytes,
		}); err != nil {
			return fmt.Errorf("store how far job %s was read: %w", p.JobID, err)
		}
	}
	return nil
}

func jobOf(row db.Job) tool.Job {
	return tool.Job{
		ID: row.ID, ExecID: row.ExecID, Command: row.Command, StartedAt: row.StartedAt, Ended: row.State == job.Ended,
		ReadBytes: row.ReadBytes, InputBytes: row.InputBytes,
	}
}
