package agent

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Statuses that a person sets and takes away.
const (
	Idle           = "idle"
	Paused         = "paused"
	ErrorSuspended = "error_suspended"
	Disabled       = "disabled"
)

// Pause stops new tasks of an agent from starting until it is resumed. Running tasks
// continue; tasks that were admitted and not claimed yet go back to the queue. Pausing
// again changes the reason.
func (s *Service) Pause(ctx context.Context, orgID, id, reason string, by event.Actor) error {
	return s.recorder.Tx(ctx, func(tx *event.Tx) error {
		// From here until the commit no task is admitted.
		if err := tx.LockAdmission(ctx, orgID); err != nil {
			return fmt.Errorf("lock admission of %s: %w", orgID, err)
		}
		a, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		if a.Status == Disabled || a.Status == ErrorSuspended {
			return fault.New(fault.Precondition, "agent %s is %s: nothing of it starts", a.Name, a.Status).WithObject(id)
		}
		why := "paused by " + by.ID
		if reason = tx.Redact(orgID).String(reason); reason != "" {
			why += ": " + reason
		}
		if err := tx.TakeBackFromAgent(ctx, db.TakeBackFromAgentParams{
			OrgID: orgID, AgentID: id, Reason: WaitReason(a.Name, Paused, why),
		}); err != nil {
			return fmt.Errorf("requeue the tasks of agent %s: %w", id, err)
		}
		return set(ctx, tx, a, Paused, why, "agent.paused", reason, by)
	})
}

// Resume lets a paused agent's tasks start again, and those of one that failures
// have suspended. Resuming one that is neither changes nothing.
func (s *Service) Resume(ctx context.Context, orgID, id string, by event.Actor) error {
	return s.resume(ctx, orgID, id, "", by)
}

// ResumeAfter lets the tasks of an agent start again whose suspension came of a task, once
// a person has resumed that task. A suspension for another reason stays.
func (s *Service) ResumeAfter(ctx context.Context, t db.Task, by event.Actor) error {
	return s.resume(ctx, t.OrgID, t.AgentID, t.ID, by)
}

func (s *Service) resume(ctx context.Context, orgID, id, because string, by event.Actor) error {
	return s.recorder.Tx(ctx, func(tx *event.Tx) error { return ResumeIn(ctx, tx, orgID, id, because, by) })
}

// ResumeIn is Resume in a transaction; with a task's id in because, only of an agent that
// was suspended because of that task.
func ResumeIn(ctx context.Context, tx *event.Tx, orgID, id, because string, by event.Actor) error {
	a, err := lock(ctx, tx, orgID, id)
	if err != nil || (a.Status != Paused && a.Status != ErrorSuspended) || because != "" && a.SuspendedBy != because {
		return err
	}
	if err := tx.AgentGoesOn(ctx, db.AgentGoesOnParams{
		OrgID: orgID, AgentID: id, Was: WaitReason(a.Name, a.Status, a.StatusReason), Reason: "agent " + a.Name + " was resumed; waits for its turn",
	}); err != nil {
		return fmt.Errorf("update the tasks that wait for agent %s: %w", id, err)
	}
	if err := stop.Withdraw(ctx, tx.Queries, orgID, stop.Suspended, id, "agent "+a.Name+" was resumed by "+by.ID); err != nil {
		return err
	}
	return set(ctx, tx, a, Idle, "", "agent.resumed", "", by)
}

// Still are the statuses in which no task of an agent starts or goes on. Of one that is
// Disabled, those that have started go on.
var Still = []string{Paused, ErrorSuspended}

// Suspend keeps new tasks of an agent from starting until a person resumes it.
// One that a person has paused or disabled stays so. Of what was admitted
// already, and is not claimed, nothing starts after the commit.
func Suspend(ctx context.Context, tx *event.Tx, t db.Task, why string) error {
	a, err := lock(ctx, tx, t.OrgID, t.AgentID)
	if err != nil || a.Status == Paused || a.Status == Disabled || a.Status == ErrorSuspended {
		return err
	}
	if err := tx.TakeBackFromAgent(ctx, db.TakeBackFromAgentParams{
		OrgID: t.OrgID, AgentID: a.ID, Reason: WaitReason(a.Name, ErrorSuspended, why),
	}); err != nil {
		return fmt.Errorf("requeue the tasks of agent %s: %w", a.ID, err)
	}
	a.SuspendedBy = t.ID
	if err := set(ctx, tx, a, ErrorSuspended, why, "agent.suspended", why, event.Hub); err != nil {
		return err
	}
	if _, err := stop.Open(ctx, tx, stop.Stop{
		OrgID: t.OrgID, Kind: stop.Suspended, Subject: a.ID, TaskID: t.ID, AgentID: a.ID,
		Title: fmt.Sprintf("Agent %s is suspended: %d tasks in a row failed", a.Name, a.Failures), Why: why,
	}); err != nil {
		return err
	}
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.AgentSuspended, Payload: map[string]any{
		"agent": a.Name, "reason": why, "fix": "deckhand agent resume " + a.Name,
	}})
}

// WaitReason returns why a task of an agent in a status does not start; empty if it may.
func WaitReason(name, status, why string) string {
	text := fmt.Sprintf("agent %s is %s", name, status)
	switch status {
	case Paused:
		if why != "" {
			text = fmt.Sprintf("agent %s is %s", name, why)
		}
	case ErrorSuspended:
		if why != "" {
			text += ": " + why
		}
	case Disabled:
		if why != "" {
			text = fmt.Sprintf("agent %s is %s", name, why)
		}
		return fmt.Sprintf("%s; let it take tasks again with: deckhand agent enable %s", text, name)
	default:
		return ""
	}
	return fmt.Sprintf("%s; go on with: deckhand agent resume %s", text, name)
}

func lock(ctx context.Context, tx *event.Tx, orgID, id string) (db.Agent, error) {
	a, err := tx.LockAgent(ctx, db.LockAgentParams{OrgID: orgID, ID: id})
	if err != nil {
		return a, fmt.Errorf("lock agent %s: %w", id, err)
	}
	return a, nil
}

func set(ctx context.Context, tx *event.Tx, a db.Agent, status, why, action, reason string, by event.Actor) error {
	because := ""
	if status == ErrorSuspended {
		because = a.SuspendedBy
	}
	// Tasks may start that waited for the agent, or have to wait for it.
	tx.Publish(change.QueueChanged{OrgID: a.OrgID})
	if err := tx.SetAgentStatus(ctx, db.SetAgentStatusParams{OrgID: a.OrgID, ID: a.ID, Status: status, StatusReason: why, SuspendedBy: because}); err != nil {
		return fmt.Errorf("set the status of agent %s: %w", a.ID, err)
	}
	return audit.Append(tx, audit.Entry{
		OrgID: a.OrgID, By: by, Action: action, ObjectKind: "agent", ObjectID: a.ID, Reason: reason,
		Before: map[string]any{"status": a.Status, "status_reason": a.StatusReason}, After: map[string]any{"status": status},
	})
}
