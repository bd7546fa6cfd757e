package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Release executes a deferred call of a task that a person has accepted, with the
// arguments that the hub stored, or re-attaches to one that is running. It returns the
// step when the call has ended. Any number of hubs may call it: the node runs each exec
// once. A call that the current policies deny is denied. It implements review.Steps.
func (s *Steps) Release(ctx context.Context, t db.Task, stepID string) (db.Step, error) {
	step, err := s.releaseOne(ctx, t, stepID)
	if err != nil || State(step.State) != Started {
		return step, err
	}
	closed, err := s.widenEgress(ctx, t)
	if err != nil {
		return step, err
	}
	defer closed()
	return s.run(ctx, t, step)
}

// releaseOne starts one deferred step.
func (s *Steps) releaseOne(ctx context.Context, t db.Task, stepID string) (step db.Step, err error) {
	if step, err = s.Get(ctx, t.OrgID, stepID); err != nil || State(step.State) == Started {
		return step, err
	}
	if step.NodeID != nil {
		// Check the node first: nothing is started that cannot be executed.
		if _, err := s.cfg.Node(*step.NodeID); err != nil {
			return step, err
		}
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: t.OrgID, ID: t.ID})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", t.ID, err)
		}
		if task.State(t.State) != task.ReviewNeeded {
			return fault.New(fault.Precondition, "task %s is %s, and waits for no review", t.ID, t.State).WithObject(t.ID)
		}
		raw, err := s.arguments(step)
		if err != nil {
			return err
		}
		decided, err := s.redecide(ctx, tx.Queries, looksOf(tx), t, step, raw)
		if err != nil {
			return err
		}
		if decided.Effect == policy.Deny {
			if err := s.denySince(ctx, tx, t, step, decided, fault.PermissionDenied, deniedNow(decided)); err != nil {
				return err
			}
			step, err = tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: stepID})
			return err
		}
		started := false
		if step, started, err = s.begin(ctx, tx, t, step, Deferred); err != nil || started || State(step.State) != Deferred {
			return err
		}
		return lockedOut(ctx, tx.Queries, step) // it is asked for again
	})
	return step, err
}

// widenEgress gives a task's jail the egress of its persona, after the agent's processes
// in it have ended. closed restores the previous egress.
func (s *Steps) widenEgress(ctx context.Context, t db.Task) (closed func(), err error) {
	closed = func() {}
	if t.NodeID == nil {
		return closed, nil
	}
	node, err := s.cfg.Node(*t.NodeID)
	if err != nil {
		return closed, err
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		return closed, err
	}
	usual, err := s.jailOf(ctx, t, p)
	if err != nil {
		return closed, err
	}
	opened, err := s.jailOf(ctx, t, p)
	if err != nil {
		return closed, err
	}
	if opened.Egress, err = s.egressOf(ctx, t, p, false); err != nil {
		return closed, err
	}
	if _, err := node.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: opened}); err != nil {
		return closed, fmt.Errorf("make jail %s: %w", t.JailID, fault.FromGRPC(err))
	}
	return func() {
		// If it cannot be restored now, the next task sets the jail's egress anyway.
		if _, err := node.Jails().EnsureJail(context.WithoutCancel(ctx), &nodev1.EnsureJailRequest{Spec: usual}); err != nil {
			s.cfg.Log.Warn("cannot restore the egress of a jail", "jail_id", t.JailID, "error", err)
		}
	}, nil
}
