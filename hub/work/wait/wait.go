// Package wait keeps the calls of the tool wait that wait for long. Such a call has no
// worker: its step waits, its task is parked, and the worker's slot is free. Service looks
// whether what the calls wait for has come, grants their steps once more, and queues their
// tasks.
package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/subtask"
	"github.com/deckhand-sh/deckhand/hub/work/task"
)

const (
	// SweepEvery is the interval of Sweep.
	SweepEvery = 2 * time.Second
	// sweepBatch is how many calls one query reads.
	sweepBatch = 500
	// timeout bounds what is asked of one node in a look.
	timeout = 5 * time.Second
)

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	Log  hclog.Logger
}

// Service ends waits. It may be used by several goroutines.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Create stores that a step waits for long, in the transaction that has it wait.
func Create(ctx context.Context, tx *event.Tx, step db.Step, w tool.Wait) (db.Wait, error) {
	row, err := tx.CreateWait(ctx, db.CreateWaitParams{
		StepID: step.ID, OrgID: step.OrgID, TaskID: step.TaskID, NodeID: *step.NodeID, JailID: step.JailID,
		Lasts: w.For, JobID: w.Job, Port: w.Port, Path: w.Path, ChildID: w.Task,
	})
	if err != nil {
		return row, fmt.Errorf("store what step %s waits for: %w", step.ID, err)
	}
	return row, nil
}

// Until returns a text about what a call waits for, such as "until 12:00:05 UTC, or until
// job_1 ends".
func Until(w db.Wait) string {
	said := "until " + w.Until.UTC().Format("2006-01-02 15:04:05 UTC")
	if what := of(w).What(); what != "" {
		said += ", or " + what
	}
	return said
}

func of(w db.Wait) tool.Wait {
	return tool.Wait{Job: w.JobID, Port: w.Port, Path: w.Path, Task: w.ChildID}
}

// Reason returns a text about what a task's calls wait for, be it a subtask or what a call
// of wait is for; "" for nothing.
func Reason(ctx context.Context, q *db.Queries, orgID, taskID string) (string, error) {
	if why, err := subtask.WaitReason(ctx, q, orgID, taskID); err != nil || why != "" {
		return why, err
	}
	rows, err := q.WaitsOf(ctx, db.WaitsOfParams{OrgID: orgID, TaskID: taskID})
	if err != nil {
		return "", fmt.Errorf("find until when task %s waits: %w", taskID, err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return "the agent waits " + Until(rows[0]), nil
}

// Sweep ends the waits that are over.
func (s *Service) Sweep(ctx context.Context) error {
	var errs []error
	for after := ""; ; {
		rows, err := s.cfg.Store.OpenWaits(ctx, db.OpenWaitsParams{AfterID: after, MaxRows: sweepBatch})
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("find the calls that wait: %w", err))...)
		}
		byNode := map[string][]db.Wait{}
		for _, row := range rows {
			after = row.Wait.StepID
			switch {
			case row.Over:
				errs = append(errs, s.end(ctx, row.Wait))
			case row.Wait.Port != 0 || row.Wait.Path != "":
				byNode[row.Wait.NodeID] = append(byNode[row.Wait.NodeID], row.Wait)
			}
		}
		s.ask(ctx, byNode)
		if len(rows) < sweepBatch {
			return errors.Join(errs...)
		}
	}
}

// ask looks on the nodes whether what calls wait for is there. A call whose node is not
// connected waits until the time has come.
func (s *Service) ask(ctx context.Context, byNode map[string][]db.Wait) {
	machine.Each(ctx, byNode, s.cfg.Node, timeout, func(asking context.Context, node machine.Link, waits []db.Wait) {
		for _, w := range waits {
			there, err := of(w).There(asking, node.Jails(), node.Files(), w.JailID)
			if err == nil && there {
				err = s.end(ctx, w)
			}
			if err != nil {
				s.cfg.Log.Debug("cannot see to a call that waits; will try again", "task_id", w.TaskID, "step_id", w.StepID, "node_id", w.NodeID, "error", err)
			}
		}
	})
}

// end grants the step of a wait that is over, and queues its task if that waits for
// nothing else.
func (s *Service) end(ctx context.Context, w db.Wait) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: w.OrgID, ID: w.TaskID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", w.TaskID, err)
		}
		step, err := tx.GetStep(ctx, db.GetStepParams{OrgID: w.OrgID, ID: w.StepID})
		if err != nil {
			return fmt.Errorf("load step %s: %w", w.StepID, err)
		}
		if step.State != "waiting" {
			return nil // somebody else was first, or the task has ended
		}
		if _, err := tx.ResolveStep(ctx, db.ResolveStepParams{
			OrgID: step.OrgID, ID: step.ID, FromState: step.State, State: "granted", DecisionReason: "what it waited for has come",
		}); err != nil {
			return fmt.Errorf("grant step %s: %w", step.ID, err)
		}
		if task.State(t.State) != task.Waiting || t.NotBefore != nil {
			return nil // its worker has not parked it yet, or a timer moves it
		}
		if why, err := Reason(ctx, tx.Queries, t.OrgID, t.ID); err != nil || why != "" {
			return err
		}
		tx.Publish(change.QueueChanged{OrgID: t.OrgID})
		_, err = task.Move(ctx, tx, t, task.Queued, "what it waited for has come; waits for a worker", event.Hub)
		return err
	})
}
