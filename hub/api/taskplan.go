package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/work/plan"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/plantree"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// TaskPlans serves TaskPlanService.
type TaskPlans struct {
	Tasks *Tasks
	Plans *plan.Service
}

// GetTaskPlan returns the plan of a task.
func (h *TaskPlans) GetTaskPlan(ctx context.Context, req *deckhandv1.GetTaskPlanRequest) (*deckhandv1.GetTaskPlanResponse, error) {
	id, err := h.Tasks.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	p, err := h.Plans.Get(ctx, auth.From(ctx).OrgID, id)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetTaskPlanResponse{Plan: planMessage(p)}, nil
}

// EditTaskPlan changes the plan of a task.
func (h *TaskPlans) EditTaskPlan(ctx context.Context, req *deckhandv1.EditTaskPlanRequest) (*deckhandv1.EditTaskPlanResponse, error) {
	id, taskID, err := h.Tasks.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	var change plan.Change
	switch c := req.GetChange().(type) {
	case *deckhandv1.EditTaskPlanRequest_Add:
		change, err = plan.Add(nodeOf(c.Add.GetItem()), c.Add.GetParent(), c.Add.GetBefore())
	case *deckhandv1.EditTaskPlanRequest_Remove:
		change = plan.Remove(c.Remove.GetId())
	case *deckhandv1.EditTaskPlanRequest_Move:
		change = plan.Move(c.Move.GetId(), c.Move.GetParent(), c.Move.GetBefore())
	case *deckhandv1.EditTaskPlanRequest_Mark:
		change = plan.Mark(c.Mark.GetId(), c.Mark.GetStatus())
	case *deckhandv1.EditTaskPlanRequest_Replace:
		change, err = plan.Replace(nodesOf(c.Replace.GetItems()))
	default:
		return nil, fault.New(fault.Invalid, "change is missing").WithFix("set one of add, remove, move, mark and replace")
	}
	if err != nil {
		return nil, err
	}
	p, err := h.Plans.Edit(ctx, id.OrgID, taskID, req.GetRevision(), change, actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.EditTaskPlanResponse{Plan: planMessage(p)}, nil
}

func nodeOf(m *deckhandv1.PlanItem) plan.Node {
	return plan.Node{
		Item:     plantree.Item{ID: m.GetId(), Title: m.GetTitle(), Status: m.GetStatus(), DependsOn: m.GetDependsOn()},
		Children: nodesOf(m.GetChildren()),
	}
}

func nodesOf(items []*deckhandv1.PlanItem) (out []plan.Node) {
	for _, m := range items {
		out = append(out, nodeOf(m))
	}
	return out
}

func planMessage(p plan.Plan) *deckhandv1.TaskPlan {
	m := &deckhandv1.TaskPlan{
		TaskId: p.Row.TaskID, Revision: p.Row.Revision, SuccessCriteria: p.Criteria, Risks: p.Risks, ChangedBy: p.Row.ChangedBy, Changes: p.Row.Changes,
		Items: planItems(p.Items, ""),
	}
	if p.Row.Revision > 0 {
		m.ChangedAt = timestamppb.New(p.Row.ChangedAt)
	}
	return m
}

// planItems returns the items of a parent with theirs. They are a tree.
func planItems(items []plantree.Item, parent string) (out []*deckhandv1.PlanItem) {
	for _, i := range items {
		if i.Parent == parent {
			out = append(out, &deckhandv1.PlanItem{Id: i.ID, Title: i.Title, Status: i.Status, DependsOn: i.DependsOn, Children: planItems(items, i.ID)})
		}
	}
	return out
}
