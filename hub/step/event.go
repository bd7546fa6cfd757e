package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// executing returns the event of a step's start.
func executing(step db.Step) event.Draft {
	return event.Draft{Type: eventkind.ToolExecuting, Payload: map[string]any{
		"step_id": step.ID, "number": step.Number, "tool": step.Tool,
	}}
}

// logStart logs a step's start, once it is stored. By this line the log of a node, which knows
// no tasks, is brought together with those of others.
func logStart(ctx context.Context, log hclog.Logger, step db.Step, attempt int32) {
	logging.From(ctx, log).Info("a call runs", "task_id", step.TaskID, "attempt", attempt, "step_id", step.ID, "tool", step.Tool,
		"exec_id", step.ExecID, "node_id", store.Text(step.NodeID))
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
func (s *Steps) recordRefused(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, refused []*nodev1.EgressUse_Refusal) error {
	if err := s.openRefused(ctx, tx, t, step, refused); err != nil {
		return err
	}
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

// openRefused opens inbox items for the hosts that one more rule of the agent's persona would
// allow: not for those that a rule has already, where the method, the path or a review was
// the reason. A task without an agent has no persona to change.
func (s *Steps) openRefused(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, refused []*nodev1.EgressUse_Refusal) error {
	if t.AgentID == "" {
		return nil
	}
	p, err := s.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	for _, r := range refused {
		// What allows it is derived from the host, not taken from the node.
		target, err := allowlist.ParseTarget(r.GetHost(), 0)
		if r.GetAllow() == "" || err != nil || p.Egress.Reaches(target) == nil {
			continue
		}
		if _, err := stop.Open(ctx, tx, stop.Stop{
			OrgID: t.OrgID, Kind: stop.Egress, Subject: stop.EgressSubject(t.AgentID, target.String()), TaskID: t.ID, AgentID: t.AgentID,
			Title: "A command was refused a connection to " + target.String(), Why: r.GetReason(),
			Detail: stop.Detail{Host: target.Host, Port: target.Port, Method: r.GetMethod(), StepID: step.ID, Tool: step.Tool},
		}); err != nil {
			return err
		}
	}
	return nil
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
