package api

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"strconv"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/kill"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Control serves ControlService and AuditService.
type Control struct {
	Store  *store.Store
	Kills  *kill.Switch
	Tasks  *task.Service
	Agents *agent.Service
	Nodes  *node.Nodes
	// Triggers are those that have a name.
	Triggers *trigger.Service
	// AuditKey signs receipts and exports.
	AuditKey ed25519.PrivateKey
	Recorder *event.Recorder
	Steps    *step.Steps

	// verifying has the ids of the organisations whose audit log is being verified.
	verifying sync.Map
}

// Kill ends everything in a scope. One's own tasks are everybody's to kill;
// whatever is larger is an administrator's.
func (h *Control) Kill(ctx context.Context, req *deckhandv1.KillRequest) (*deckhandv1.KillResponse, error) {
	id := auth.From(ctx)
	order := kill.Order{OrgID: id.OrgID, Reason: req.GetReason(), By: actor(id)}
	var err error
	if order.Scope, order.ObjectID, err = h.scope(ctx, id, req.GetScope(), req.GetObjectId()); err != nil {
		return nil, err
	}
	result, err := h.Kills.Kill(ctx, order)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.KillResponse{}
	if result.Hold != nil {
		res.Hold = holdMessage(*result.Hold)
	}
	for _, one := range result.Setups {
		m := &deckhandv1.KilledSetup{NodeId: one.NodeID, AgentId: one.AgentID, Image: one.Image}
		if one.ExecID != nil {
			m.ExecId = *one.ExecID
		}
		res.Setups = append(res.Setups, m)
	}
	for _, k := range result.Tasks {
		m := &deckhandv1.KilledTask{
			TaskId: k.TaskID, NodeId: k.NodeID, Detail: k.Detail,
			Outcome: deckhandv1.KillOutcome(enumValue(deckhandv1.KillOutcome_value, "KILL_OUTCOME_", string(k.Outcome))),
		}
		if k.Outcome == kill.StopsBy {
			m.StopsBy = timestamppb.New(k.StopsBy)
		}
		res.Tasks = append(res.Tasks, m)
	}
	return res, nil
}

// scope reads what is to be killed, and refuses callers who may not kill it.
func (h *Control) scope(ctx context.Context, id auth.Identity, scope deckhandv1.KillScope, ref string) (hold.Scope, string, error) {
	if scope != deckhandv1.KillScope_KILL_SCOPE_ORGANISATION && ref == "" {
		return "", "", fault.New(fault.Invalid, "object_id is missing").WithFix("name what is to be killed")
	}
	if scope != deckhandv1.KillScope_KILL_SCOPE_TASK && id.Role != "admin" {
		return "", "", fault.New(fault.Denied, "to kill more than one task needs the role admin, and you have %s", id.Role).
			WithCode(fault.PermissionDenied).WithFix("ask an administrator, or kill your own tasks one by one")
	}
	switch scope {
	case deckhandv1.KillScope_KILL_SCOPE_TASK, deckhandv1.KillScope_KILL_SCOPE_LINEAGE:
		found, err := h.Tasks.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return "", "", err
		}
		row, err := h.Tasks.Get(ctx, id.OrgID, found)
		if err != nil {
			return "", "", err
		}
		if scope == deckhandv1.KillScope_KILL_SCOPE_LINEAGE {
			return hold.Lineage, row.Task.LineageID, nil
		}
		return kill.Task, found, own(id, row.Task)
	case deckhandv1.KillScope_KILL_SCOPE_AGENT:
		found, err := h.Agents.Find(ctx, viewer(ctx), ref)
		return hold.Agent, found, err
	case deckhandv1.KillScope_KILL_SCOPE_TRIGGER:
		found, err := h.Triggers.Find(ctx, viewer(ctx), ref)
		if fault.Is(err, fault.NotFound) {
			// What people submit, or one that was deleted.
			return hold.Trigger, ref, h.Kills.KnowTrigger(ctx, id.OrgID, ref)
		}
		return hold.Trigger, found, err
	case deckhandv1.KillScope_KILL_SCOPE_NODE:
		found, err := h.Nodes.Find(ctx, id.OrgID, ref)
		return hold.Node, found, err
	default:
		if ref != "" && ref != id.OrgID {
			return "", "", fault.New(fault.NotFound, "there is no organisation %q for you to kill", ref).WithFix("leave object_id out for your own")
		}
		return hold.Organisation, id.OrgID, nil
	}
}

// ListHolds returns the holds.
func (h *Control) ListHolds(ctx context.Context, req *deckhandv1.ListHoldsRequest) (*deckhandv1.ListHoldsResponse, error) {
	rows, next, err := h.Kills.Holds(ctx, viewer(ctx), req.GetReleased(), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListHoldsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Holds = append(res.Holds, holdMessage(row))
	}
	return res, nil
}

// ReleaseHold ends a hold.
func (h *Control) ReleaseHold(ctx context.Context, req *deckhandv1.ReleaseHoldRequest) (*deckhandv1.ReleaseHoldResponse, error) {
	id := auth.From(ctx)
	ref := req.GetHoldId()
	rows, err := h.Store.FindHolds(ctx, db.FindHoldsParams{OrgID: id.OrgID, Ref: ref, Prefix: store.Prefix("hold", ref)})
	found, err := store.One("hold", ref, rows, err)
	if err != nil {
		return nil, err
	}
	released, err := h.Kills.Release(ctx, id.OrgID, found, req.GetReason(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ReleaseHoldResponse{Hold: holdMessage(released)}, nil
}

func holdMessage(h db.Hold) *deckhandv1.Hold {
	return &deckhandv1.Hold{
		Id: h.ID, Scope: deckhandv1.KillScope(enumValue(deckhandv1.KillScope_value, "KILL_SCOPE_", h.Scope)), ObjectId: h.ObjectID,
		HeldBy: h.HeldBy, Reason: h.Reason, CreatedAt: timestamppb.New(h.CreatedAt), ReleasedAt: timestamp(h.ReleasedAt), ReleasedBy: h.ReleasedBy,
	}
}

const auditPage = 50

// ListAuditEntries returns who changed what.
func (h *Control) ListAuditEntries(ctx context.Context, req *deckhandv1.ListAuditEntriesRequest) (*deckhandv1.ListAuditEntriesResponse, error) {
	ctx, total := withTotal(ctx, req)
	m := req
	filter := audit.Filter{ObjectID: m.GetObjectId(), ActorID: m.GetActorId(), Action: m.GetAction(), Severity: m.GetSeverity(), Contains: m.GetContains(), Max: m.GetPageSize()}
	if m.GetSince() != nil {
		since := m.GetSince().AsTime()
		filter.Since = &since
	}
	if m.GetUntil() != nil {
		until := m.GetUntil().AsTime()
		filter.Until = &until
	}
	if filter.Max == 0 {
		filter.Max = auditPage
	}
	if token := m.GetPageToken(); token != "" {
		var err error
		if filter.Before, err = strconv.ParseInt(token, 10, 64); err != nil || filter.Before <= 0 {
			return nil, fault.New(fault.Invalid, "page_token is not one that a list has answered").WithFix("leave it out to begin again")
		}
	}
	rows, err := audit.List(ctx, h.Store, auth.From(ctx).OrgID, filter)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAuditEntriesResponse{}
	for _, row := range rows {
		res.Entries = append(res.Entries, &deckhandv1.AuditEntry{
			Id: row.ID, Time: timestamppb.New(row.Time), ActorKind: row.ActorKind, ActorId: row.ActorID, Action: row.Action,
			ObjectKind: row.ObjectKind, ObjectId: row.ObjectID, Before: object(row.Before), After: object(row.After),
			Reason: row.Reason, Address: row.Address, UserAgent: row.UserAgent, Severity: row.Severity,
		})
	}
	if len(rows) == int(filter.Max) {
		res.NextPageToken = strconv.FormatInt(rows[len(rows)-1].ID, 10)
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}
