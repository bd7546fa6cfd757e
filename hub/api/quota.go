package api

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Quotas serves PlanService: the subscription plan of an organisation, and what is used of it.
type Quotas struct {
	Plans   *quota.Service
	Queries *db.Queries
	// UpgradeURL is where a person can buy a larger subscription plan. It may be empty.
	UpgradeURL string
}

// message returns the quotas of the caller's organisation, and what is used of them.
func (h *Quotas) message(ctx context.Context) (*deckhandv1.Plan, error) {
	id := auth.From(ctx)
	org := id.OrgID
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
		CycleDay: int32(subscription.CycleDay), HardBlock: subscription.Hard, UpgradeUrl: h.UpgradeURL, //nolint:gosec // at most 28
		Quotas: quotaMessages(usage.Lines(id.UserName)),
	}
	if id.Role == auth.Admin {
		for _, user := range slices.Sorted(maps.Keys(subscription.Limits)) {
			l := subscription.Limits[user]
			m.Limits = append(m.Limits, &deckhandv1.Quota{
				UserName: user, Runs: limited(l.Runs), Iterations: limited(l.Iterations), Tokens: limited(l.Tokens), ToolCalls: limited(l.ToolCalls),
			})
		}
	}
	if subscription.ActiveTime > 0 {
		m.ActiveTime = durationpb.New(subscription.ActiveTime)
	}
	if subscription.Runs != quota.Unlimited {
		m.Runs, m.Left = &subscription.Runs, new(usage.Remaining())
	}
	return m, nil
}

func limited(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func quotaMessages(lines []quota.Line) []*deckhandv1.QuotaUsage {
	var out []*deckhandv1.QuotaUsage
	for _, l := range lines {
		out = append(out, &deckhandv1.QuotaUsage{Scope: l.Scope, Metric: l.Metric, Used: l.Used, Reserved: l.Reserved, Limit: l.Limit})
	}
	return out
}

// SetQuota sets what the organisation, each user or one user may use.
func (h *Quotas) SetQuota(ctx context.Context, req *deckhandv1.SetQuotaRequest) (*deckhandv1.SetQuotaResponse, error) {
	id, m := auth.From(ctx), req.GetQuota()
	change := quota.Change{Runs: m.Runs, Iterations: m.Iterations, Tokens: m.Tokens, ToolCalls: m.ToolCalls} //nolint:protogetter // unset is not 0
	if err := h.Plans.SetLimits(ctx, id.OrgID, m.GetUserName(), change, actor(id)); err != nil {
		return nil, err
	}
	plan, err := h.message(ctx)
	return &deckhandv1.SetQuotaResponse{Plan: plan}, err
}

// historyPeriods is how many billing periods a history has by default.
const historyPeriods = 12

// GetQuotaHistory returns what was used in billing periods.
func (h *Quotas) GetQuotaHistory(ctx context.Context, req *deckhandv1.GetQuotaHistoryRequest) (*deckhandv1.GetQuotaHistoryResponse, error) {
	id, user := auth.From(ctx), req.GetUserName()
	if user != "" && user != id.UserName && id.Role != auth.Admin {
		return nil, fault.New(fault.Denied, "only an admin may see what other users have used").WithCode(fault.PermissionDenied).
			WithFix("leave user_name out, or give your own")
	}
	periods, err := h.Plans.History(ctx, id.OrgID, user, int(cmp.Or(req.GetPeriods(), historyPeriods)))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetQuotaHistoryResponse{Periods: pastMessages(periods)}
	if user == "" && id.Role == auth.Admin {
		users, err := h.Plans.Users(ctx, id.OrgID)
		if err != nil {
			return nil, err
		}
		res.Users = pastMessages(users)
	}
	return res, nil
}

func pastMessages(past []quota.Past) []*deckhandv1.QuotaPeriod {
	var out []*deckhandv1.QuotaPeriod
	for _, p := range past {
		out = append(out, &deckhandv1.QuotaPeriod{
			Period: p.Name, Since: timestamppb.New(p.Since), Until: timestamppb.New(p.Until), UserName: p.User,
			Runs: p.Runs, Iterations: p.Iterations, Tokens: p.Tokens, ToolCalls: p.ToolCalls,
		})
	}
	return out
}

// GetPlan returns the plan.
func (h *Quotas) GetPlan(ctx context.Context, _ *deckhandv1.GetPlanRequest) (*deckhandv1.GetPlanResponse, error) {
	m, err := h.message(ctx)
	return &deckhandv1.GetPlanResponse{Plan: m}, err
}

// SetPlan puts the organisation on a plan.
func (h *Quotas) SetPlan(ctx context.Context, req *deckhandv1.SetPlanRequest) (*deckhandv1.SetPlanResponse, error) {
	id := auth.From(ctx)
	if err := h.Plans.Set(ctx, id.OrgID, quota.PlanChange{
		Name: req.GetName(), Runs: req.Runs, CycleDay: req.CycleDay, Hard: req.HardBlock, //nolint:protogetter // unset is not 0
	}, actor(id)); err != nil {
		return nil, err
	}
	m, err := h.message(ctx)
	return &deckhandv1.SetPlanResponse{Plan: m}, err
}

// SetAllowedModels sets which models may be called.
func (h *Quotas) SetAllowedModels(ctx context.Context, req *deckhandv1.SetAllowedModelsRequest) (*deckhandv1.SetAllowedModelsResponse, error) {
	id := auth.From(ctx)
	if err := h.Plans.SetModels(ctx, id.OrgID, req.GetModels(), actor(id)); err != nil {
		return nil, err
	}
	m, err := h.message(ctx)
	return &deckhandv1.SetAllowedModelsResponse{Plan: m}, err
}

// SetCallRate limits the calls a minute to a provider.
func (h *Quotas) SetCallRate(ctx context.Context, req *deckhandv1.SetCallRateRequest) (*deckhandv1.SetCallRateResponse, error) {
	id := auth.From(ctx)
	if err := h.Plans.SetCallRate(ctx, id.OrgID, req.GetProvider(), req.GetCallsPerMinute(), actor(id)); err != nil {
		return nil, err
	}
	m, err := h.message(ctx)
	return &deckhandv1.SetCallRateResponse{Plan: m}, err
}
