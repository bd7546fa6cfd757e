package step

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// executing returns the event of a step's start.
func executing(step db.Step) event.Draft {
	return event.Draft{Type: eventkind.ToolExecuting, Payload: map[string]any{
		"step_id": step.ID, "number": step.Number, "tool": step.Tool,
	}}
}

// completed returns the event of a step's end; changed describes what it changed in its
// workspace, nil for nothing.
func completed(step db.Step, r tool.Result, changed map[string]any) event.Draft {
	payload := map[string]any{
		"step_id": step.ID, "number": step.Number, "tool": step.Tool, "state": step.State,
		"error_code": step.ErrorCode, "outcome": r.Outcome, "log_bytes": step.LogBytes,
		"duration_ms": step.FinishedAt.Sub(*step.StartedAt).Milliseconds(),
	}
	if r.Outcome == nil {
		payload["outcome"] = map[string]any{}
	}
	if changed != nil {
		payload["workspace"] = changed
	}
	return event.Draft{Type: eventkind.ToolCompleted, Payload: payload}
}

// recordRefused records the connections that the node's egress refused to a step's
// command, in the task's history and in the audit log.
func recordRefused(tx *event.Tx, step db.Step, refused []*nodev1.EgressUse_Refusal) error {
	list := tool.RefusedOutcome(refused)
	if err := tx.Append(step.OrgID, step.TaskID, event.Hub, event.Draft{Type: eventkind.EgressRefused, Payload: map[string]any{
		"step_id": step.ID, "number": step.Number, "tool": step.Tool, "error_code": string(fault.EgressDenied), "refused": list,
	}}); err != nil {
		return err
	}
	by := event.Hub
	if step.NodeID != nil {
		by = event.Actor{Kind: "node", ID: *step.NodeID}
	}
	return audit.Append(tx, audit.Entry{
		OrgID: step.OrgID, By: by, Action: "egress.refused", ObjectKind: "step", ObjectID: step.ID, Reason: refused[0].GetReason(),
		After: map[string]any{"task_id": step.TaskID, "refused": list},
	})
}

// maxShown is the length in bytes at which an event cuts a text among the arguments; the
// step keeps all of it.
const maxShown = 4 << 10

// brief shortens long texts in arguments.
func brief(arguments map[string]any) map[string]any {
	out := make(map[string]any, len(arguments))
	for k, v := range arguments {
		if text, ok := v.(string); ok && len(text) > maxShown {
			v = fmt.Sprintf("%s [... %d bytes in all]", strings.ToValidUTF8(text[:maxShown], ""), len(text))
		}
		out[k] = v
	}
	return out
}

func text(e *fault.Error) string {
	if e.Fix == "" {
		return e.Message
	}
	return e.Message + ": " + e.Fix
}
