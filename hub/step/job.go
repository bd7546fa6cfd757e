package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/job"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// maxShownCommand bounds the command line of a job, in bytes, where a person is asked about
// its input.
const maxShownCommand = 16 << 10

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

// Command implements tool.Jobs.
func (j jobsOf) Command(ctx context.Context, id string) (tool.Job, error) {
	if !strings.HasPrefix(id, "step_") {
		return j.Job(ctx, id)
	}
	row, err := j.store.GetStep(ctx, db.GetStepParams{OrgID: j.task.OrgID, ID: id})
	if err == nil && row.TaskID == j.task.ID && row.ExecID != "" && row.StartedAt != nil {
		return tool.Job{ID: row.ID, ExecID: row.ExecID, StartedAt: *row.StartedAt}, nil
	}
	if err != nil && !store.IsNotFound(err) {
		return tool.Job{}, fmt.Errorf("find step %s: %w", id, err)
	}
	return tool.Job{}, j.unknown(ctx, id)
}

// unknown returns the error for an id that no job has.
func (j jobsOf) unknown(ctx context.Context, id string) error {
	all, err := j.List(ctx)
	if err != nil {
		return err
	}
	refused := fault.New(fault.Invalid, "this task has no job %q", id).WithCode(fault.InvalidParameters)
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

// typedInto returns the command line of the job that a call of job_input names, whole and
// with its secrets; empty if there is no such job.
func (s *Steps) typedInto(ctx context.Context, q *db.Queries, t db.Task, arguments map[string]any) (string, error) {
	id, _ := arguments["job"].(string)
	row, err := q.GetJob(ctx, db.GetJobParams{OrgID: t.OrgID, TaskID: t.ID, ID: id})
	if store.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find job %s: %w", id, err)
	}
	started, err := q.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: row.StepID})
	if err != nil {
		return "", fmt.Errorf("find the call that started job %s: %w", id, err)
	}
	_, call, err := s.read(started)
	if err != nil {
		return "", err
	}
	command, _ := call["command"].(string)
	return command, nil
}

// typing returns the tool whose approvals a call of job_input needs as well: text that is
// typed into a program which does more than read data can do what a command does.
func (s *Steps) typing(ctx context.Context, q *db.Queries, t db.Task, set policy.Set, name string, arguments map[string]any) (*tool.Tool, error) {
	if _, ok := arguments["text"]; !ok || name != toolname.JobInput {
		return nil, nil
	}
	into, err := s.typedInto(ctx, q, t, arguments)
	if err != nil || policy.ReadsData(into) {
		return nil, err
	}
	return recategorised(s.cfg.Tools.Get(toolname.ShellExec), set), nil
}

// previewOf describes to a person what a call would do.
func (s *Steps) previewOf(ctx context.Context, q *db.Queries, t db.Task, record *tool.Tool, arguments map[string]any) (string, error) {
	preview := record.Preview(arguments)
	if record.Name == toolname.JobInput {
		into, err := s.typedInto(ctx, q, t, arguments)
		if err != nil {
			return "", err
		}
		if len(into) > maxShownCommand {
			into = fmt.Sprintf("%s\n[... %d bytes in all: see the call that started the job]", strings.ToValidUTF8(into[:maxShownCommand], ""), len(into))
		}
		preview += "\n\nThe job runs:\n" + into
	}
	return s.cfg.Redact.Org(t.OrgID).String(preview), nil
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
