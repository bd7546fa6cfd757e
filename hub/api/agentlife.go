package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (h *Agents) life() agent.Life { return agent.Life{Agents: h.Agents} }

func applier(id auth.Identity) agent.Applier { return agent.Applier{Actor: actor(id), Role: id.Role} }

// ownership reads whose an agent becomes, and who sees it.
func (h *Agents) ownership(ctx context.Context, orgID, owner, level string) (agent.Ownership, error) {
	out, err := h.life().OwnerOf(ctx, orgID, owner)
	if err == nil {
		out.Level, err = visibility.Parse("visibility", level)
	}
	return out, err
}

// message returns an agent with what its persona says of it, the nodes that it may run on,
// and whether the caller may change it.
func (h *Agents) message(ctx context.Context, row db.GetAgentRow) (*deckhandv1.Agent, error) {
	out, err := h.messages(ctx, []db.GetAgentRow{row})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (h *Agents) messages(ctx context.Context, rows []db.GetAgentRow) ([]*deckhandv1.Agent, error) {
	v := viewer(ctx)
	nodes, err := h.nodes(ctx, v.OrgID)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.Agent.ID
	}
	owned, err := visibility.Owned(ctx, h.Queries, v, ids)
	if err != nil {
		return nil, err
	}
	out := make([]*deckhandv1.Agent, len(rows))
	for i, row := range rows {
		m := agentMessage(row)
		m.MayManage = slices.Contains(owned, row.Agent.ID)
		p, err := h.Agents.PersonaOf(ctx, h.Queries, v.OrgID, row.Agent.ID, row.Agent.CurrentVersion)
		if err != nil {
			return nil, err
		}
		m.Avatar, m.Title, m.Goal, m.HubAccess = p.Avatar, p.Title, p.Goal, p.HubAccess
		m.Nodes = fitting(p.Nodes, nodes, m.GetHomeNodeId())
		out[i] = m
	}
	return out, nil
}

// nodes returns all nodes of an organisation that are not revoked.
func (h *Agents) nodes(ctx context.Context, orgID string) (out []node.Record, err error) {
	for token, more := "", true; more; more = token != "" {
		var page []node.Record
		if page, token, err = h.Nodes.List(ctx, orgID, token, nodesAtOnce); err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		out = append(out, page...)
	}
	return slices.DeleteFunc(out, func(r node.Record) bool { return r.Node.RevokedAt != nil }), nil
}

// fitting returns the nodes that an agent may run on.
func fitting(want persona.Nodes, all []node.Record, home string) (out []*deckhandv1.AgentNode) {
	for _, r := range all {
		if node.Fits(want, r.Node) {
			out = append(out, &deckhandv1.AgentNode{Id: r.Node.ID, Name: r.Node.Name, Connected: r.Connected, Home: r.Node.ID == home})
		}
	}
	return out
}

// DisableAgent has an agent take no new tasks.
func (h *Agents) DisableAgent(ctx context.Context, req *deckhandv1.DisableAgentRequest) (*deckhandv1.DisableAgentResponse, error) {
	a, err := h.change(ctx, req.GetAgentId(), func(id auth.Identity, agentID string) error {
		return h.life().Disable(ctx, id.OrgID, agentID, req.GetReason(), applier(id))
	})
	return &deckhandv1.DisableAgentResponse{Agent: a}, err
}

// EnableAgent lets a disabled agent take tasks again.
func (h *Agents) EnableAgent(ctx context.Context, req *deckhandv1.EnableAgentRequest) (*deckhandv1.EnableAgentResponse, error) {
	a, err := h.change(ctx, req.GetAgentId(), func(id auth.Identity, agentID string) error {
		return h.life().Enable(ctx, id.OrgID, agentID, applier(id))
	})
	return &deckhandv1.EnableAgentResponse{Agent: a}, err
}

// DeleteAgent deletes an agent, and cancels those of its tasks that the caller wants ended.
func (h *Agents) DeleteAgent(ctx context.Context, req *deckhandv1.DeleteAgentRequest) (*deckhandv1.DeleteAgentResponse, error) {
	id := auth.From(ctx)
	// One that is deleted is found: a call that was interrupted goes on when it is repeated.
	agentID, err := h.Agents.FindPast(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return nil, err
	}
	ends, err := h.life().Delete(ctx, id.OrgID, agentID, agent.Deletion{
		Confirm: req.GetConfirm(), Reason: req.GetReason(), Tasks: agent.OpenTasks(req.GetTasks()),
	}, applier(id))
	if err != nil {
		return nil, err
	}
	row, err := h.Agents.Get(ctx, id.OrgID, agentID)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.DeleteAgentResponse{}
	for _, taskID := range ends {
		switch _, err := h.Tasks.Cancel(ctx, id.OrgID, taskID, "agent "+row.Agent.Name+" was deleted", actor(id)); {
		case err == nil:
			res.CancelledTaskIds = append(res.CancelledTaskIds, taskID)
		case !fault.Is(err, fault.Precondition): // it has ended by now
			return nil, err
		}
	}
	res.Agent, err = h.message(ctx, row)
	return res, err
}

// UndeleteAgent undoes a deletion, and enables the triggers that it had disabled. If some of
// them cannot be enabled, a repeated call goes on with those.
func (h *Agents) UndeleteAgent(ctx context.Context, req *deckhandv1.UndeleteAgentRequest) (*deckhandv1.UndeleteAgentResponse, error) {
	id := auth.From(ctx)
	agentID, err := h.Agents.FindPast(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return nil, err
	}
	stopped, err := h.life().Undelete(ctx, id.OrgID, agentID, applier(id))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.UndeleteAgentResponse{}
	var failed []error
	for _, triggerID := range stopped {
		row, err := h.Triggers.Get(ctx, id.OrgID, triggerID)
		if err != nil {
			return nil, err
		}
		if err := h.Triggers.Enable(ctx, id.OrgID, triggerID, actor(id)); err != nil {
			failed = append(failed, fmt.Errorf("enable trigger %s: %w", row.Trigger.Name, err))
			continue
		}
		res.Triggers = append(res.Triggers, row.Trigger.Name)
	}
	if err := errors.Join(failed...); err != nil {
		if first := fault.As(err); first != nil {
			return nil, fault.New(first.Kind, "the agent is there again, and %d of its triggers are still disabled: %v", len(failed), err).WithObject(agentID).
				WithFix("mend them, and repeat: deckhand agent undelete %s", agentID)
		}
		return nil, err
	}
	row, err := h.Agents.Get(ctx, id.OrgID, agentID)
	if err != nil {
		return nil, err
	}
	res.Agent, err = h.message(ctx, row)
	return res, err
}

// RenameAgent gives an agent another name.
func (h *Agents) RenameAgent(ctx context.Context, req *deckhandv1.RenameAgentRequest) (*deckhandv1.RenameAgentResponse, error) {
	a, err := h.change(ctx, req.GetAgentId(), func(id auth.Identity, agentID string) error {
		if err := mayRename(ctx, h, id, agentID, req.GetName(), req.GetForget()); err != nil {
			return err
		}
		return h.life().Rename(ctx, id.OrgID, agentID, req.GetName(), req.GetForget(), applier(id))
	})
	return &deckhandv1.RenameAgentResponse{Agent: a}, err
}

// mayRename refuses a rename by which an agent, or one that gets a name which is forgotten,
// would come under other rules of the organisation's policy. Administrators make these rules,
// and may.
func mayRename(ctx context.Context, h *Agents, id auth.Identity, agentID, name string, forget bool) error {
	if id.Role == auth.Admin {
		return nil
	}
	row, err := h.Agents.Get(ctx, id.OrgID, agentID)
	if err != nil {
		return err
	}
	var names []string
	if forget {
		if names, err = h.Queries.FormerNames(ctx, db.FormerNamesParams{OrgID: id.OrgID, AgentID: agentID}); err != nil {
			return fmt.Errorf("list the former names of %s: %w", agentID, err)
		}
	}
	if name != row.Agent.Name {
		names = append(names, row.Agent.Name, name)
	}
	rule, err := h.Policies.Naming(ctx, id.OrgID, names...)
	if err != nil || rule == "" {
		return err
	}
	return fault.New(fault.Denied, "rule %q of the organisation's policy is about agents of this name: another name would change what agent %s may do, or another agent", rule, row.Agent.Name).
		WithCode(fault.PermissionDenied).WithObject(agentID).WithFix("ask an administrator, who may rename it and change the rule")
}

// DuplicateAgent makes an agent from another one.
func (h *Agents) DuplicateAgent(ctx context.Context, req *deckhandv1.DuplicateAgentRequest) (*deckhandv1.DuplicateAgentResponse, error) {
	id, m := auth.From(ctx), req
	agentID, err := h.Agents.Find(ctx, viewer(ctx), m.GetAgentId())
	if err != nil {
		return nil, err
	}
	f, dropped, err := h.life().Copy(ctx, id.OrgID, agentID, m.GetVersion(), m.GetName())
	if err != nil {
		return nil, err
	}
	if err := h.maySpecial(id, f); err != nil {
		return nil, err
	}
	// What the original may not do, its copy may not either.
	row, err := h.life().Duplicate(ctx, id.OrgID, agentID, f, applier(id), func(tx *event.Tx, copied string) error {
		return h.Policies.Copy(ctx, tx, id.OrgID, agentID, copied, actor(id))
	})
	if err != nil {
		return nil, err
	}
	a, err := h.message(ctx, row)
	return &deckhandv1.DuplicateAgentResponse{Agent: a, DroppedTriggers: dropped}, err
}

// TransferAgent changes whose an agent is, and who sees it.
func (h *Agents) TransferAgent(ctx context.Context, req *deckhandv1.TransferAgentRequest) (*deckhandv1.TransferAgentResponse, error) {
	if req.GetOwner() == "" && req.GetVisibility() == "" {
		return nil, fault.New(fault.Invalid, "owner and visibility are both empty").WithFix("give one of them, or both")
	}
	a, err := h.change(ctx, req.GetAgentId(), func(id auth.Identity, agentID string) (err error) {
		by := applier(id)
		if by.Ownership, err = h.ownership(ctx, id.OrgID, req.GetOwner(), req.GetVisibility()); err != nil {
			return err
		}
		return h.life().Transfer(ctx, id.OrgID, agentID, by)
	})
	return &deckhandv1.TransferAgentResponse{Agent: a}, err
}

// versionsPage is how many versions a page has if the request sets no size.
const versionsPage = 20

// ListAgentVersions returns the versions of an agent's persona.
func (h *Agents) ListAgentVersions(ctx context.Context, req *deckhandv1.ListAgentVersionsRequest) (*deckhandv1.ListAgentVersionsResponse, error) {
	v := viewer(ctx)
	agentID, err := h.Agents.FindPast(ctx, v, req.GetAgentId())
	if err != nil {
		return nil, err
	}
	rows, next, err := h.life().Versions(ctx, v.OrgID, agentID, req.GetPageToken(), cmp.Or(req.GetPageSize(), versionsPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAgentVersionsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Versions = append(res.Versions, &deckhandv1.AgentVersionSummary{
			Version: row.Version, CreatedBy: row.CreatedBy, CreatedAt: timestamppb.New(row.CreatedAt), Change: row.Change, Provider: row.Provider, Model: row.Model,
		})
	}
	return res, nil
}

// DiffAgentVersions compares two versions.
func (h *Agents) DiffAgentVersions(ctx context.Context, req *deckhandv1.DiffAgentVersionsRequest) (*deckhandv1.DiffAgentVersionsResponse, error) {
	v := viewer(ctx)
	agentID, err := h.Agents.FindPast(ctx, v, req.GetAgentId())
	if err != nil {
		return nil, err
	}
	row, err := h.Agents.Get(ctx, v.OrgID, agentID)
	if err != nil {
		return nil, err
	}
	to := cmp.Or(req.GetTo(), row.Agent.CurrentVersion)
	from := cmp.Or(req.GetFrom(), to-1)
	if from < 1 {
		return nil, fault.New(fault.Precondition, "agent %s has no version before version %d", row.Agent.Name, to).WithObject(agentID).WithFix("give from")
	}
	diff, err := h.life().Diff(ctx, v.OrgID, agentID, from, to)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.DiffAgentVersionsResponse{Diff: diff, From: from, To: to}, nil
}

// RestoreAgentVersion applies an older version again.
func (h *Agents) RestoreAgentVersion(ctx context.Context, req *deckhandv1.RestoreAgentVersionRequest) (*deckhandv1.RestoreAgentVersionResponse, error) {
	id := auth.From(ctx)
	agentID, err := h.Agents.Find(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return nil, err
	}
	f, err := h.life().Restored(ctx, id.OrgID, agentID, req.GetVersion())
	if err != nil {
		return nil, err
	}
	res, err := h.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{Filename: f.Name, Markdown: f.Markdown, Script: f.Script})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RestoreAgentVersionResponse{Agent: res.GetAgent(), Change: res.GetChange(), Triggers: res.GetTriggers()}, nil
}
