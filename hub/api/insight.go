package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/learn/insight"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Insights serves InsightService.
type Insights struct {
	Insights *insight.Service
	Patterns *pattern.Service
	Tasks    *task.Service
	Agents   *agent.Service
}

// ExplainTask says why a task failed.
func (h *Insights) ExplainTask(ctx context.Context, req *deckhandv1.ExplainTaskRequest) (*deckhandv1.ExplainTaskResponse, error) {
	v := viewer(ctx)
	id, err := h.Tasks.Find(ctx, v, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Get(ctx, v.OrgID, id)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ExplainTaskResponse{TaskId: id}
	offer, err := h.Patterns.OfferOf(ctx, v.OrgID, id)
	if err != nil {
		return nil, err
	}
	if offer != nil {
		res.Offer = offerMessage(*offer)
		switch _, err := h.Patterns.Find(ctx, v, offer.PatternID); {
		case fault.Is(err, fault.NotFound): // of somebody else, or deleted
			res.Offer.PatternId, res.Offer.Title = "", ""
		case err != nil:
			return nil, err
		}
	}
	if !insight.Failed(row.Task) {
		return res, nil
	}
	e, err := h.Insights.Explain(ctx, v, row.Task)
	if err != nil {
		return nil, err
	}
	res.Failed, res.Class, res.Cause, res.Evidence = true, string(e.Class), e.Cause, e.Evidence
	if e.Step != nil {
		res.StepId, res.StepNumber, res.Tool = e.Step.ID, e.Step.Number, e.Step.Tool
	}
	for _, s := range e.Similar {
		res.Similar = append(res.Similar, &deckhandv1.SimilarFailure{
			TaskId: s.Row.TaskID, Title: s.Row.Title, AgentName: s.Row.AgentName, FailedAt: timestamppb.New(s.Row.FailedAt), SolvedByTaskId: s.Row.SolvedBy, SolvedHow: s.Solved,
		})
	}
	for _, p := range e.Proposals {
		res.Proposals = append(res.Proposals, &deckhandv1.FailureProposal{
			Kind: p.Kind, Title: p.Title, AgentId: p.AgentID, AgentName: p.AgentName, Diff: p.Diff, Content: p.Content, BaseVersion: p.Base, Digest: p.Digest(), MemoryKey: p.Key,
		})
	}
	return res, nil
}

// GetRecommendation says how to run a task.
func (h *Insights) GetRecommendation(ctx context.Context, req *deckhandv1.GetRecommendationRequest) (*deckhandv1.GetRecommendationResponse, error) {
	agentID, taskType, err := typeOf(ctx, h.Agents, req.GetAgentId(), req.GetTaskType())
	if err != nil {
		return nil, err
	}
	list, basis, err := h.Insights.Recommend(ctx, viewer(ctx), agentID, req.GetTaskType())
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetRecommendationResponse{Basis: basis}
	for _, s := range list {
		r := s.Row
		res.Strategies = append(res.Strategies, &deckhandv1.Strategy{
			AgentId: r.AgentID, AgentName: r.AgentName, Provider: r.Provider, Model: r.Model, Mode: r.Mode, Runs: r.Tasks, Succeeded: r.Succeeded,
			ExpectedSuccess: s.Expected, CostMicrosP50: r.CostP50, CostMicrosP90: r.CostP90, MeanIterations: r.Iterations,
		})
	}
	if req.GetGoal() != "" {
		res.Patterns, err = matches(ctx, h.Patterns, req.GetGoal(), taskType, false)
	}
	return res, err
}

// GetInsights reports a period.
func (h *Insights) GetInsights(ctx context.Context, req *deckhandv1.GetInsightsRequest) (*deckhandv1.GetInsightsResponse, error) {
	id := auth.From(ctx)
	asked := insight.Asked{OrgID: id.OrgID, Until: time.Now()}
	if at := timeOf(req.GetUntil()); at != nil {
		asked.Until = *at
	}
	asked.Since = *cmp.Or(timeOf(req.GetSince()), new(asked.Until.AddDate(0, 0, -statisticsDays)))
	switch took := asked.Until.Sub(asked.Since); {
	case took <= 0:
		return nil, fault.New(fault.Invalid, "since is not before until").WithFix("ask for a time that has begun")
	case took > maxStatisticsDays*24*time.Hour:
		return nil, fault.New(fault.Invalid, "since is more than %d days before until", maxStatisticsDays).WithFix("ask for a shorter time")
	}
	if ref := req.GetAgentId(); ref != "" {
		var err error
		if asked.AgentID, err = h.Agents.FindPast(ctx, viewer(ctx), ref); err != nil {
			return nil, err
		}
	}
	if id.Role != auth.Admin {
		asked.User = id.UserName
	}
	r, err := h.Insights.Report(ctx, asked)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetInsightsResponse{
		Since: timestamppb.New(asked.Since), Until: timestamppb.New(asked.Until), UserName: asked.User, Markdown: r.Markdown(asked),
		Agents: insightRows(r.Agents), Weeks: insightRows(r.Weeks),
	}
	for _, t := range r.Slow {
		m := &deckhandv1.SlowTool{Tool: t.Key, Calls: t.Calls, CallsFailed: t.CallsFailed, Total: durationpb.New(t.Total)}
		if t.Took != nil {
			m.DurationP50, m.DurationP90 = durationpb.New(t.Took.Middle), durationpb.New(t.Took.High)
		}
		res.SlowTools = append(res.SlowTools, m)
	}
	for _, d := range r.Denied {
		res.Denied = append(res.Denied, &deckhandv1.DeniedCall{
			AgentName: d.Row.AgentName, Tool: d.Row.Tool, Reason: d.Row.Reason, Calls: d.Row.Calls, Tasks: d.Row.Tasks, TaskId: d.Row.TaskID, StepId: d.Row.StepID, RuleYaml: d.Rule,
		})
	}
	return res, nil
}

func insightRows(rows []insight.Row) (out []*deckhandv1.InsightRow) {
	for _, r := range rows {
		out = append(out, &deckhandv1.InsightRow{Figures: statisticsMessage(r.Row), Interventions: r.Interventions})
	}
	return out
}
