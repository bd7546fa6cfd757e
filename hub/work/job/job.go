// Package job keeps the background commands of tasks. Service records the jobs that a
// task's calls have started, notices when they have ended, and ends those whose task has
// ended.
//
// A job is a command that goes on although the call that started it has ended. It runs in
// its task's jail, under the name of that call (package step), with the node's guarantees
// for commands: it starts once, its output is kept, and it survives the death of the
// node's daemon, a worker or a hub. What it needs besides is a row: written in the
// transaction that ends the call, so that a command which goes on is known, and ended by
// the leader's Sweep, which asks the nodes.
//
// A job whose task has ended is killed: at once by the hub that ended the task, otherwise
// by Sweep, and when its node connects (package reconcile). One that its persona keeps goes
// on, unless the task was cancelled, and the agent's next tasks in that jail can use it. The
// kill switch (package kill) names the running jobs of a task in its orders, also those of
// tasks that have ended.
package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// States of a job.
const (
	Running = "running"
	Ended   = "ended"
)

const (
	// MaxListed is how many jobs of a task are listed.
	MaxListed = 200
	// SweepEvery is the interval of Sweep.
	SweepEvery = 2 * time.Second
	// sweepBatch is how many jobs one query reads.
	sweepBatch = 500
	// timeout bounds each exchange with a node.
	timeout = 10 * time.Second
	// measureTimeout bounds how long a list waits for what the jobs use.
	measureTimeout = 2 * time.Second
	// maxCommand is how many bytes of a command line are kept for lists.
	maxCommand = 1 << 10
	// endedBy is on whose behalf the jobs of an ended task are killed.
	endedBy = "hub: its task has ended"
)

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	// AckOutcome is called after a commit that stored the end of a job: the node may
	// forget the result.
	AckOutcome func(nodeID, execID string)
	Log        hclog.Logger
}

// Service keeps the jobs. It may be used by several goroutines.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Create records the job that a call started, in the transaction that ends the call's
// step. keep reports that it goes on when its task ends.
func Create(ctx context.Context, tx *event.Tx, step db.Step, started *tool.StartedJob, keep bool) error {
	if step.NodeID == nil {
		return fault.New(fault.Internal, "step %s started a job and has no node", step.ID)
	}
	command := textcut.Bytes(tx.Redact(step.OrgID).String(started.Command), maxCommand, " …")
	if err := tx.CreateJob(ctx, db.CreateJobParams{
		ID: started.ID, OrgID: step.OrgID, TaskID: step.TaskID, StepID: step.ID, ExecID: step.ExecID, NodeID: *step.NodeID, JailID: step.JailID,
		Command: command, ReadBytes: started.ReadBytes, Terminal: started.Terminal, Keep: keep,
	}); err != nil {
		return fmt.Errorf("store job %s: %w", started.ID, err)
	}
	return tx.Append(step.OrgID, step.TaskID, event.Hub, event.Draft{Type: eventkind.JobStarted, Payload: map[string]any{
		"job_id": started.ID, "step_id": step.ID, "command": command,
	}})
}

// Listed is a job with what it uses.
type Listed struct {
	db.Job
	// Now is its state on the node, with what it uses; nil for one that has ended, and while
	// the node cannot be asked.
	Now *nodev1.Exec
}

// List returns a page of the jobs of a task, those that run first, then the newest first, and
// the next page's token.
func (s *Service) List(ctx context.Context, orgID, taskID, page string, size int32) (_ []Listed, next string, err error) {
	params := db.ListJobsParams{OrgID: orgID, TaskID: taskID, MaxRows: size + 1}
	if page != "" {
		running, at, id, err := store.ParseStandingToken(page)
		if err != nil {
			return nil, "", err
		}
		params.BeforeRunning, params.BeforeTime, params.BeforeID = running, &at, id
	}
	rows, err := s.cfg.Store.ListJobs(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list the jobs of %s: %w", taskID, err)
	}
	rows, next = store.Page(rows, size, func(last db.Job) string {
		return store.StandingToken(last.State == Running, last.StartedAt, last.ID)
	})
	out := make([]Listed, len(rows))
	var now map[string]*nodev1.Exec
	for i, row := range rows {
		if row.State == Running && now == nil {
			now = s.measure(ctx, row) // all run in the task's jail
		}
		out[i] = Listed{row, now[row.ExecID]}
	}
	return out, next, nil
}

// measure returns what runs in a job's jail, by the names of the commands.
func (s *Service) measure(ctx context.Context, j db.Job) map[string]*nodev1.Exec {
	out := map[string]*nodev1.Exec{}
	node, err := s.cfg.Node(j.NodeID)
	if err != nil {
		return out // not connected
	}
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	live, err := node.Exec().ListExecs(ctx, &nodev1.ListExecsRequest{JailId: j.JailID, LiveOnly: true, Usage: true})
	if err != nil {
		s.cfg.Log.Debug("cannot measure a job", "job_id", j.ID, "node_id", j.NodeID, "error", err)
	}
	for _, e := range live.GetExecs() {
		out[e.GetExecId()] = e
	}
	return out
}

// Kill kills a job on a person's behalf, and returns it with how many of its processes are
// left: 0 proves that none is.
func (s *Service) Kill(ctx context.Context, orgID, taskID, id string, by event.Actor) (db.Job, int32, error) {
	key := db.GetJobParams{OrgID: orgID, TaskID: taskID, ID: id}
	j, err := s.cfg.Store.GetJob(ctx, key)
	if store.IsNotFound(err) {
		return j, 0, fault.New(fault.NotFound, "task %s has no job %q", taskID, id).WithObject(id).WithFix("see which it has: deckhand task jobs %s", taskID)
	}
	if err != nil {
		return j, 0, fmt.Errorf("find job %s: %w", id, err)
	}
	if j.State == Ended {
		return j, 0, nil
	}
	node, err := s.cfg.Node(j.NodeID)
	if err != nil {
		return j, 0, err
	}
	if err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by, Action: "job.killed", ObjectKind: "job", ObjectID: id})
	}); err != nil {
		return j, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	left, err := s.killOn(ctx, node, j, by.ID)
	if err != nil {
		return j, left, err
	}
	j, err = s.cfg.Store.GetJob(ctx, key)
	return j, left, err
}

// killOn kills a job on its node, stores its end if it has ended by then, and returns how
// many of its processes are left.
func (s *Service) killOn(ctx context.Context, node machine.Link, j db.Job, by string) (int32, error) {
	res, err := node.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: j.ExecID, By: by})
	if err != nil {
		return 0, fault.FromGRPC(err)
	}
	if exec := res.GetExec(); exec.GetState() == nodev1.ExecState_EXEC_STATE_ENDED {
		err = s.end(ctx, j, exec)
	}
	return res.GetExec().GetMembersLeft(), err
}

// EndOf kills the jobs of a task that has ended, except for those that are kept. What cannot
// be reached is left to Sweep.
func (s *Service) EndOf(ctx context.Context, t db.Task) {
	jobs, err := s.cfg.Store.RunningJobsOf(ctx, db.RunningJobsOfParams{OrgID: t.OrgID, TaskIds: []string{t.ID}})
	if err != nil {
		s.cfg.Log.Warn("cannot find the jobs of a task that has ended; will try again", "task_id", t.ID, "error", err)
		return
	}
	for _, j := range jobs {
		if j.Keep && task.State(t.State) != task.Cancelled {
			continue
		}
		if node, err := s.cfg.Node(j.NodeID); err == nil {
			s.kill(ctx, node, j)
		}
	}
}

// kill ends a job that nobody wants any more.
func (s *Service) kill(ctx context.Context, node machine.Link, j db.Job) {
	if _, err := s.killOn(ctx, node, j, endedBy); err != nil {
		s.cfg.Log.Warn("a job was not ended with its task; will try again", "job_id", j.ID, "task_id", j.TaskID, "error", err)
	}
}

// Sweep stores the ends of jobs and kills those whose task has ended.
func (s *Service) Sweep(ctx context.Context) error {
	for after := ""; ; {
		rows, err := s.cfg.Store.RunningJobs(ctx, db.RunningJobsParams{AfterID: after, MaxRows: sweepBatch})
		if err != nil {
			return fmt.Errorf("find the jobs that run: %w", err)
		}
		byNode := map[string][]db.RunningJobsRow{}
		for _, row := range rows {
			byNode[row.Job.NodeID] = append(byNode[row.Job.NodeID], row)
			after = row.Job.ID
		}
		// Where a node is not connected, what runs there goes on, or ends by itself.
		machine.Each(ctx, byNode, s.cfg.Node, timeout, s.look)
		if len(rows) < sweepBatch {
			return nil
		}
	}
}

// look asks a node which of its jobs go on.
func (s *Service) look(ctx context.Context, node machine.Link, rows []db.RunningJobsRow) {
	live, err := node.Exec().ListExecs(ctx, &nodev1.ListExecsRequest{LiveOnly: true})
	if err != nil {
		s.cfg.Log.Debug("cannot ask a node which jobs go on", "node_id", rows[0].Job.NodeID, "error", err)
		return
	}
	runs := map[string]bool{}
	for _, e := range live.GetExecs() {
		runs[e.GetExecId()] = true
	}
	for _, row := range rows {
		switch {
		case row.Unwanted:
			s.kill(ctx, node, row.Job)
		case !runs[row.Job.ExecID]:
			if err := s.lookAt(ctx, node, row.Job); err != nil {
				s.cfg.Log.Warn("cannot find out how a job ended; will try again", "job_id", row.Job.ID, "error", err)
			}
		}
	}
}

// lookAt stores how a job ended that its node runs no more.
func (s *Service) lookAt(ctx context.Context, node machine.Link, j db.Job) error {
	res, err := node.Exec().GetExec(ctx, &nodev1.GetExecRequest{ExecId: j.ExecID})
	if err = fault.FromGRPC(err); fault.Is(err, fault.NotFound) {
		return s.end(ctx, j, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_UNKNOWN})
	}
	if err != nil || res.GetExec().GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
		return err
	}
	return s.end(ctx, j, res.GetExec())
}

// end stores how a job ended, once.
func (s *Service) end(ctx context.Context, j db.Job, e *nodev1.Exec) error {
	at := time.Now()
	if e.GetEndedAt() != nil {
		at = e.GetEndedAt().AsTime()
	}
	outcome := tool.OutcomeOf(e)
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		// Of a task's commands, one end is stored after the other: see TaskLogs.
		if _, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: j.OrgID, ID: j.TaskID}); err != nil {
			return err
		}
		if _, err := tx.EndJob(ctx, db.EndJobParams{OrgID: j.OrgID, ID: j.ID, Outcome: outcome, EndedAt: &at}); err != nil {
			return err
		}
		said := map[string]any{"job_id": j.ID, "step_id": j.StepID}
		var how map[string]any
		if err := json.Unmarshal(outcome, &how); err != nil {
			return fmt.Errorf("read the outcome of job %s: %w", j.ID, err)
		}
		maps.Copy(said, how)
		changed, err := workspace.RecordJob(ctx, tx, j, e.GetJobWorkspace())
		if err != nil {
			return err
		}
		if changed != nil {
			said["workspace"] = changed
		}
		tx.AfterCommit(func() { s.cfg.AckOutcome(j.NodeID, j.ExecID) })
		return tx.Append(j.OrgID, j.TaskID, event.Hub, event.Draft{Type: eventkind.JobEnded, Payload: said})
	})
	if store.IsNotFound(err) {
		return nil // another hub stored it
	}
	if err != nil {
		return fmt.Errorf("store the end of job %s: %w", j.ID, err)
	}
	return nil
}
