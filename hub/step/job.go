package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
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
	queries *db.Queries
	task    db.Task
}

var _ tool.Jobs = jobsOf{}

// Job implements tool.Jobs.
func (j jobsOf) Job(ctx context.Context, id string) (tool.Job, error) {
	row, err := j.queries.GetJob(ctx, db.GetJobParams{OrgID: j.task.OrgID, TaskID: j.task.ID, JailID: j.task.JailID, ID: id})
	if store.IsNotFound(err) {
		return tool.Job{}, j.unknown(ctx, id)
	}
	if err != nil {
		return tool.Job{}, fmt.Errorf("find job %s: %w", id, err)
	}
	return j.of(row), nil
}

// Command implements tool.Jobs.
func (j jobsOf) Command(ctx context.Context, id string) (tool.Job, error) {
	if !strings.HasPrefix(id, "step_") {
		return j.Job(ctx, id)
	}
	row, err := j.queries.GetStep(ctx, db.GetStepParams{OrgID: j.task.OrgID, ID: id})
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
	rows, err := j.queries.ListJobs(ctx, db.ListJobsParams{OrgID: j.task.OrgID, TaskID: j.task.ID, JailID: j.task.JailID, MaxRows: job.MaxListed})
	if err != nil {
		return nil, fmt.Errorf("list the jobs of %s: %w", j.task.ID, err)
	}
	out := make([]tool.Job, len(rows))
	for i, row := range rows {
		out[i] = j.of(row)
	}
	return out, nil
}

// types are the tools that type into the program of a job.
var types = []string{toolname.JobInput, toolname.TerminalWrite}

// typing adds to a call that types into a program what it is typed into and behind: before
// is the number of its step; 0 for one that is not stored yet.
func (s *Steps) typing(ctx context.Context, q *db.Queries, t db.Task, c policy.Call, before int32) (policy.Call, error) {
	if !slices.Contains(types, c.Tool) {
		return c, nil
	}
	id, _ := c.Arguments["job"].(string)
	into, err := q.GetJob(ctx, db.GetJobParams{OrgID: t.OrgID, TaskID: t.ID, JailID: t.JailID, ID: id})
	if store.IsNotFound(err) {
		return c, nil // the call fails
	}
	if err != nil {
		return c, fmt.Errorf("find job %s: %w", id, err)
	}
	if c.Program, err = s.programOf(ctx, q, into); err != nil || c.Tool != toolname.TerminalWrite {
		return c, err
	}
	c.Line, err = s.unfinishedLine(ctx, q, t, into, before)
	return c, err
}

// programOf returns the command line of a job, whole and with its secrets.
func (s *Steps) programOf(ctx context.Context, q *db.Queries, j db.Job) (string, error) {
	started, err := q.GetStep(ctx, db.GetStepParams{OrgID: j.OrgID, ID: j.StepID})
	if err != nil {
		return "", fmt.Errorf("find the call that started job %s: %w", j.ID, err)
	}
	_, call, err := s.read(started)
	if err != nil {
		return "", err
	}
	command, _ := call["command"].(string)
	return command, nil
}

// maxPieces is how many calls may type one line.
const maxPieces = 50

// unfinishedLine returns what the calls of a task before one have typed into a terminal
// since its last line.
func (s *Steps) unfinishedLine(ctx context.Context, q *db.Queries, t db.Task, into db.Job, before int32) (string, error) {
	rows, err := q.CallsBefore(ctx, db.CallsBeforeParams{OrgID: t.OrgID, TaskID: t.ID, Tool: toolname.TerminalWrite, Before: before, MaxRows: maxPieces})
	if err != nil {
		return "", fmt.Errorf("read what was typed into %s: %w", into.ID, err)
	}
	line := ""
	for _, row := range rows {
		_, arguments, err := s.read(db.Step{ID: row.ID, Tool: toolname.TerminalWrite, ArgumentsSealed: row.ArgumentsSealed, ChangedSealed: row.ChangedSealed})
		if err != nil {
			return "", err
		}
		if arguments["job"] != into.ID {
			continue
		}
		typed := policy.Typed(arguments)
		if line = typed + line; strings.Contains(typed, "\n") {
			return policy.Unfinished(line), nil
		}
	}
	if len(rows) == maxPieces || into.TaskID != t.ID {
		line = shell.Hole + line // it may have begun before, or an earlier task may have begun it
	}
	return policy.Unfinished(line), nil
}

// standsFor returns the tools whose approvals a call needs as well. One that starts a program
// on a terminal, or types a line into a program which does more than read data, can do what
// a command does; a patch does what the tools for files do.
func (s *Steps) standsFor(ctx context.Context, q *db.Queries, t db.Task, set policy.Set, c policy.Call) ([]*tool.Tool, error) {
	c, err := s.typing(ctx, q, t, c, 0)
	if err != nil {
		return nil, err
	}
	var out []*tool.Tool
	if c.Runs() && c.Tool != toolname.ShellExec {
		out = append(out, recategorised(s.cfg.Tools.Get(toolname.ShellExec), set))
	}
	parts, err := policy.Parts(c)
	for _, part := range parts {
		out = append(out, recategorised(s.cfg.Tools.Get(part.Tool), set))
	}
	return out, err
}

// recordJob stores what a call did with a job.
func (s *Steps) recordJob(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, r tool.Result) error {
	if r.Started != nil {
		p, err := s.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
		if err != nil {
			return err
		}
		if err := job.Create(ctx, tx, step, r.Started, p.Workspace.KeepJobs); err != nil {
			return err
		}
	}
	if p := r.Progress; p != nil {
		if err := tx.SetJobProgress(ctx, db.SetJobProgressParams{
			OrgID: step.OrgID, ID: p.JobID, ReadBytes: p.ReadBytes, InputBytes: p.InputBytes,
		}); err != nil {
			return fmt.Errorf("store how far job %s was read: %w", p.JobID, err)
		}
	}
	return nil
}

func (j jobsOf) of(row db.Job) tool.Job {
	return tool.Job{
		ID: row.ID, ExecID: row.ExecID, Command: row.Command, StartedAt: row.StartedAt, Ended: row.State == job.Ended,
		Terminal: row.Terminal, Earlier: row.TaskID != j.task.ID, ReadBytes: row.ReadBytes, InputBytes: row.InputBytes,
	}
}
