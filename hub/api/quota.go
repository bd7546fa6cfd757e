package api

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Quotas serves PlanService: the subscription plan of an organisation, and what is used of it.
type Quotas struct {
	Plans   *quota.Service
	Queries *db.Queries
}

// message returns the quotas of the caller's organisation, and what is used of them.
func (h *Quotas) message(ctx context.Context) (*deckhandv1.Plan, error) {
	org := auth.From(ctx).OrgID
	subscription, err := h.Plans.Subscription(ctx, h.Queries, org)
	if err != nil {
		return nil, err
	}
	usage, err := h.Plans.Usage(ctx, h.Queries, org, true)
	if err != nil {
		return nil, err
	}
	m := &deckhandv1.Plan{
		Name: subscription.Name, Tools: tool.CategoryName(subscription.Tools), RollsOver: subscription.RollsOver, Period: usage.Period,
		Used: usage.Used, Carried: usage.Carried, ResetsAt: timestamppb.New(usage.ResetsAt), SetBy: subscription.SetBy,
		Models: subscription.Models, CallsPerMinute: subscription.CallsPerMinute,
	}
	if subscription.ActiveTime > 0 {
		m.ActiveTime = durationpb.New(subscription.ActiveTime)
	}
	if subscription.Runs != quota.Unlimited {
		m.Runs, m.Left = &subscription.Runs, new(usage.Remaining())
	}
	return m, nil
}

// GetPlan returns the plan.
func (h *Quotas) GetPlan(ctx context.Context, _ *connect.Request[deckhandv1.GetPlanRequest]) (*connect.Response[deckhandv1.GetPlanResponse], error) {
	m, err := h.message(ctx)
	return connect.NewResponse(&deckhandv1.GetPlanResponse{Plan: m}), err
}

// SetPlan puts the organisation on a plan.
func (h *Quotas) SetPlan(ctx context.Context, req *connect.Request[deckhandv1.SetPlanRequest]) (*connect.Response[deckhandv1.SetPlanResponse], error) {
	id := auth.From(ctx)
	if err := h.Plans.Set(ctx, id.OrgID, req.Msg.GetName(), req.Msg.Runs, actor(id)); err != nil {
		return nil, err
	}
	m, err := h.message(ctx)
	return connect.NewResponse(&deckhandv1.SetPlanResponse{Plan: m}), err
}

// SetAllowedModels sets which models may be called.
func (h *Quotas) SetAllowedModels(ctx context.Context, req *connect.Request[deckhandv1.SetAllowedModelsRequest]) (*connect.Response[deckhandv1.SetAllowedModelsResponse], error) {
	id := auth.From(ctx)
	if err := h.Plans.SetModels(ctx, id.OrgID, req.Msg.GetModels(), actor(id)); err != nil {
		return nil, err
	}
	m, err := h.message(ctx)
	return connect.NewResponse(&deckhandv1.SetAllowedModelsResponse{Plan: m}), err
}

// SetCallRate limits the calls a minute to a provider.
func (h *Quotas) SetCallRate(ctx context.Context, req *connect.Request[deckhandv1.SetCallRateRequest]) (*connect.Response[deckhandv1.SetCallRateResponse], error) {
	id := auth.From(ctx)
	if err := h.Plans.SetCallRate(ctx, id.OrgID, req.Msg.GetProvider(), req.Msg.GetCallsPerMinute(), actor(id)); err != nil {
		return nil, err
	}
	m, err := h.message(ctx)
	return connect.NewResponse(&deckhandv1.SetCallRateResponse{Plan: m}), err
}
