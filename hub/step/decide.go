package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/task"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// verdict is the hub's decision on a call: granted with a reason, or denied.
type verdict struct {
	reason string
	denied *fault.Error
}

// mostHarmful is the worst category of tool that a role may use.
var mostHarmful = map[string]deckhandv1.ToolCategory{
	"viewer":   deckhandv1.ToolCategory_TOOL_CATEGORY_UNSPECIFIED,
	"basic":    deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE,
	"advanced": deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE,
	"admin":    deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS,
}

var categoryNames = map[deckhandv1.ToolCategory]string{
	deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE:      "safe",
	deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE:  "moderate",
	deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS: "dangerous",
}

// judge answers the call's arguments, its category and the decision on it. The
// worker has checked much of this before; the hub trusts none of it.
func (s *Steps) judge(ctx context.Context, q *db.Queries, t db.Task, p Proposal) (map[string]any, string, verdict) {
	arguments := map[string]any{}
	record := s.cfg.Tools.Get(p.Tool)
	if record == nil {
		// Kept for the record where they can be read at all.
		if json.Unmarshal([]byte(p.ArgumentsJSON), &arguments) != nil {
			arguments = map[string]any{"unreadable": p.ArgumentsJSON}
		}
		return arguments, "", deny(fault.Invalid, fault.ToolNotFound, "use a tool of the list you were given", "there is no tool %q", p.Tool)
	}
	category := categoryNames[record.Category]
	parsed, err := toolargs.Check(s.cfg.Tools.Record(p.Tool), p.ArgumentsJSON)
	if err != nil {
		if json.Unmarshal([]byte(p.ArgumentsJSON), &arguments) != nil {
			arguments = map[string]any{"unreadable": p.ArgumentsJSON}
		}
		return arguments, category, deny(fault.Invalid, fault.InvalidParameters, "correct the arguments and call again", "%v", err)
	}
	arguments = parsed
	if record.Category > mostHarmful[t.CreatedByRole] {
		return arguments, category, deny(fault.Denied, fault.PermissionDenied,
			"ask somebody with more rights to run the task",
			"%s is a %s tool, and the role %s of the one who submitted the task does not allow it", p.Tool, category, t.CreatedByRole)
	}
	agent, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return arguments, category, verdict{denied: fault.New(fault.Internal, "the persona cannot be read").WithCause(err)}
	}
	if !tool.Allowed(agent.Tools, p.Tool) {
		return arguments, category, deny(fault.Denied, fault.PermissionDenied, "use a tool of the list you were given",
			"the persona does not allow the tool %s", p.Tool)
	}
	return arguments, category, verdict{reason: fmt.Sprintf("allowed: the persona lists %s and role %s covers %s tools", p.Tool, t.CreatedByRole, category)}
}

func deny(kind fault.Kind, code fault.Code, fix, format string, args ...any) verdict {
	return verdict{denied: fault.New(kind, format, args...).WithCode(code).WithFix("%s", fix)}
}

// runtimes is the jail runtime that each trust level asks for.
var runtimes = map[persona.Trust]string{
	persona.Trusted:   "runc",
	persona.Verified:  "runsc",
	persona.Untrusted: "kata",
}

// Jail answers what a task's jail is made of, from its persona.
func (s *Steps) Jail(ctx context.Context, t db.Task) (*nodev1.JailSpec, error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	return &nodev1.JailSpec{
		JailId: t.JailID, Runtime: runtimes[p.Trust], Rootfs: "host",
		CpuMillis: p.Jail.CPUMillis, MemoryBytes: p.Jail.MemoryBytes, Pids: p.Jail.PIDs, TmpBytes: p.Jail.TmpBytes,
		WorkspaceBytes: p.Workspace.SizeBytes, ReadOnlyPaths: p.Jail.ReadOnlyPaths,
	}, nil
}

// pause takes the task from its worker: a person must look at the evidence
// before anything more is done.
func (s *Steps) pause(ctx context.Context, tx *event.Tx, t db.Task, step db.Step) error {
	if !task.State(t.State).May(task.Paused) {
		return nil
	}
	tx.AfterCommit(func() { s.cfg.Admit(t.OrgID) })
	_, err := task.Move(ctx, tx, t, task.Paused, fmt.Sprintf(
		"nobody knows whether step %s (%s) took effect (%s): look at its log and the workspace, then cancel this task or submit a new one",
		step.ID, step.Tool, fault.OutcomeUnknown), event.Hub)
	return err
}
