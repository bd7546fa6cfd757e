package task

import (
	"encoding/json"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// AuditStep records the end of a call whose decision is in the audit log: how it ended, and how
// long it took.
func AuditStep(tx *event.Tx, t db.Task, step db.Step) error {
	if !StepAudited(step) {
		return nil
	}
	e := audit.Entry{
		OrgID: t.OrgID, By: event.Actor{Kind: "agent", ID: t.AgentID}, Action: "call.ended", ObjectKind: "step", ObjectID: step.ID,
		After: map[string]any{
			"task_id": t.ID, "tool": step.Tool, "category": step.Category, "state": step.State,
			"tokens": t.InputTokens + t.OutputTokens, "cost_micros": t.CostMicros,
		},
	}
	if step.StartedAt != nil && step.FinishedAt != nil {
		e.After["duration_ms"] = step.FinishedAt.Sub(*step.StartedAt).Milliseconds()
	}
	if step.ErrorCode != "" {
		e.After["error_code"] = step.ErrorCode
	}
	return audit.Append(tx, e)
}

// AuditCancelled is AuditStep for those of some cancelled steps that had started, of tasks whose
// rows the transaction has locked. The others were never made.
func AuditCancelled(tx *event.Tx, steps []db.Step, tasks ...db.Task) error {
	for _, step := range steps {
		if step.StartedAt == nil {
			continue
		}
		for _, t := range tasks {
			if t.ID != step.TaskID {
				continue
			}
			if err := AuditStep(tx, t, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// StepAudited reports whether the decision about a call that was made is in the audit log: a person
// approved it, or a rule that comes from an approval did, or something dangerous was recognised
// in it.
func StepAudited(step db.Step) bool {
	if step.Tool == toolname.RequestInput || step.Tool == toolname.CompleteTask {
		return false
	}
	var d policy.Decision
	if len(step.Decision) > 0 && json.Unmarshal(step.Decision, &d) != nil {
		return true // an entry too many is better than one that is missing
	}
	return len(step.GrantedBinding) > 0 || d.Answered || len(d.Dangers) > 0
}
