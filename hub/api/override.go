package api

import (
	"context"
	"math"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// overridden reads the settings that replace those of a task's persona. Every submitter
// may lower the persona's limits and require more approvals; only an administrator may do
// the opposite. The organisation's budgets, quotas and allowed models apply in any case.
func (h *Tasks) overridden(ctx context.Context, id auth.Identity, agentID string, m *deckhandv1.TaskOverride) (task.Override, error) {
	out := task.Override{Provider: m.GetProvider(), Model: m.GetModel(), Mode: persona.Mode(m.GetMode()), Limits: limitsIn(m.GetLimits())}
	switch {
	case agentID == "":
		return out, fault.New(fault.Invalid, "override is for a run of an agent, and the task is for none").WithFix("leave it out, or name an agent")
	case m.GetMemoryBytes() != 0 || m.GetNodeId() != "":
		return out, fault.New(fault.Invalid, "override.memory_bytes and override.node_id are for tasks that run once more").
			WithFix("leave them out: the persona's jail and nodes say where it runs, and with how much")
	}
	if err := out.Check(); err != nil {
		return out, err
	}
	row, err := h.Agents.Get(ctx, id.OrgID, agentID)
	if err != nil {
		return out, err
	}
	p, err := h.Agents.PersonaOf(ctx, h.Store.Queries, id.OrgID, agentID, row.Agent.CurrentVersion)
	if err != nil {
		return out, err
	}
	if out.Provider == persona.ProviderScript && p.Provider != persona.ProviderScript {
		return out, fault.New(fault.Invalid, "override.provider is script, and the persona of %s has no script", p.Name).WithObject(agentID).
			WithFix("name a provider of models")
	}
	if id.Role == "admin" {
		return out, nil
	}
	deny := func(what, fix string) error {
		return fault.New(fault.Denied, "%s of agent %s, and you have the role %s", what, p.Name, id.Role).WithCode(fault.PermissionDenied).
			WithObject(agentID).WithFix("%s, or ask an administrator", fix)
	}
	if out.Mode != "" && out.Mode.Below(p.Mode) {
		return out, deny("override.mode is "+string(out.Mode)+", which is less careful than "+string(p.Mode), "leave it out")
	}
	for _, l := range []struct {
		name       string
		want, most int64
	}{
		{"iterations", int64(out.Limits.Iterations), int64(p.Limits.Iterations)},
		{"active_time", int64(out.Limits.ActiveTime), int64(p.Limits.ActiveTime)},
		{"tokens", out.Limits.Tokens, p.Limits.Tokens},
		{"calls", out.Limits.Calls, p.Limits.Calls},
		{"cost_micros", out.Limits.CostMicros, int64(math.Round(p.Limits.CostUSD * 1e6))},
		{"files", out.Limits.Files, p.Limits.Files},
		{"file_size_bytes", out.Limits.FileSize, p.Limits.FileSize},
	} {
		if l.want > l.most {
			return out, deny("override.limits."+l.name+" is more than the persona gives a run", "ask for at most as much")
		}
	}
	return out, nil
}

// limitsIn reads limits.
func limitsIn(m *deckhandv1.TaskLimits) task.Limits {
	return task.Limits{
		Iterations: m.GetIterations(), ActiveTime: m.GetActiveTime().AsDuration(), Tokens: m.GetTokens(), Calls: m.GetCalls(),
		CostMicros: m.GetCostMicros(), Files: m.GetFiles(), FileSize: m.GetFileSizeBytes(),
	}
}
