package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/estimate"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/search"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/phase"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Histories serves HistoryService.
type Histories struct {
	Store    *store.Store
	Recorder *event.Recorder
	Tasks    *task.Service
	Agents   *agent.Service
	History  *estimate.History
	Budgets  *budget.Ledger
	Plans    *quota.Service
	// UpgradeURL is where a person can buy a larger subscription plan. It may be empty.
	UpgradeURL string
	Search     *search.Service
	// Node returns the live link to a node.
	Node func(nodeID string) (machine.Link, error)
}

func estimateMessage(e estimate.Estimate) *deckhandv1.Estimate {
	m := &deckhandv1.Estimate{Runs: e.Runs, Basis: e.Basis, Iteration: e.Iteration}
	if e.Runs > 0 {
		m.DurationP50, m.DurationP90 = durationpb.New(e.Duration.Middle), durationpb.New(e.Duration.High)
		m.CostMicrosP50, m.CostMicrosP90 = &e.Cost.Middle, &e.Cost.High
	}
	return m
}

// GetEstimate returns what a run is likely to take.
func (h *Histories) GetEstimate(ctx context.Context, req *deckhandv1.GetEstimateRequest) (*deckhandv1.GetEstimateResponse, error) {
	id := auth.From(ctx)
	res := &deckhandv1.GetEstimateResponse{}
	var e estimate.Estimate
	var names []budget.Name
	user, refs := id.UserName, [2]string{req.GetAgentId(), req.GetTaskId()}
	switch {
	case (refs[0] == "") == (refs[1] == ""):
		return nil, fault.New(fault.Invalid, "one of agent_id and task_id is to be given").WithFix("name an agent, or a task that is in progress")
	case refs[0] != "":
		agentID, err := h.Agents.Find(ctx, viewer(ctx), refs[0])
		if err != nil {
			return nil, err
		}
		if e, err = h.History.Before(ctx, id.OrgID, agentID); err != nil {
			return nil, err
		}
		stands, err := h.Plans.Usage(ctx, h.Store.Queries, id.OrgID, true)
		if err != nil {
			return nil, err
		}
		if left := stands.Remaining(); left != quota.Unlimited {
			res.RunsLeft = &left
		}
		res.Quotas, res.QuotaResetsAt, res.UpgradeUrl = quotaMessages(stands.Lines(id.UserName)), timestamppb.New(stands.ResetsAt), h.UpgradeURL
	default:
		taskID, err := h.Tasks.Find(ctx, viewer(ctx), refs[1])
		if err != nil {
			return nil, err
		}
		row, err := h.Tasks.Get(ctx, id.OrgID, taskID)
		if err != nil {
			return nil, err
		}
		if e, err = h.History.Of(ctx, row.Task); err != nil {
			return nil, err
		}
		user, names = row.Task.CreatedBy, []budget.Name{{Scope: budget.Task, ObjectID: taskID}}
	}
	names = append(
		names,
		budget.Name{Scope: budget.User, ObjectID: user, Every: budget.Day}, budget.Name{Scope: budget.User, ObjectID: user, Every: budget.Month},
		budget.Name{Scope: budget.Organisation, ObjectID: id.OrgID, Every: budget.Day},
		budget.Name{Scope: budget.Organisation, ObjectID: id.OrgID, Every: budget.Month},
		budget.Name{Scope: budget.Organisation, ObjectID: id.OrgID},
	)
	res.Estimate = estimateMessage(e)
	for _, n := range names {
		b, err := h.Budgets.Get(ctx, id.OrgID, n)
		if err != nil {
			return nil, err
		}
		if b.Limit >= 0 {
			res.Budgets = append(res.Budgets, budgetMessage(b))
		}
	}
	return res, nil
}

const (
	// statisticsDays is how many days statistics cover by default, and at most.
	statisticsDays    = 30
	maxStatisticsDays = 366
)

// GetStatistics adds tasks up.
func (h *Histories) GetStatistics(ctx context.Context, req *deckhandv1.GetStatisticsRequest) (*deckhandv1.GetStatisticsResponse, error) {
	id := auth.From(ctx)
	now := time.Now()
	asked := estimate.Asked{OrgID: id.OrgID, By: req.GetBy(), Until: now, Version: req.GetAgentVersion(), TaskType: req.GetTaskType()}
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
	if asked.Version != 0 && asked.AgentID == "" {
		return nil, fault.New(fault.Invalid, "agent_version is %d, and agent_id is empty", asked.Version).WithFix("name the agent, or leave agent_version out")
	}
	if id.Role != auth.Admin {
		asked.User = id.UserName
	}
	rows, err := h.History.Statistics(ctx, asked)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetStatisticsResponse{Since: timestamppb.New(asked.Since), Until: timestamppb.New(asked.Until), UserName: asked.User}
	for _, r := range rows {
		res.Rows = append(res.Rows, statisticsMessage(r))
	}
	return res, nil
}

func statisticsMessage(r estimate.Row) *deckhandv1.StatisticsRow {
	m := &deckhandv1.StatisticsRow{
		Key: r.Key, Tasks: r.Tasks, Succeeded: r.Succeeded, Failed: r.Failed, TimedOut: r.TimedOut, Cancelled: r.Cancelled, Live: r.Live,
		Calls: r.Calls, CallsFailed: r.CallsFailed, Usage: &deckhandv1.Usage{
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CacheReadTokens: r.CacheReadTokens,
			CacheWriteTokens: r.CacheWriteTokens, CostMicros: r.CostMicros,
		},
	}
	if r.Took != nil {
		m.DurationP50, m.DurationP90 = durationpb.New(r.Took.Middle), durationpb.New(r.Took.High)
		m.DurationMean = durationpb.New(r.Mean)
	}
	m.FirstTime, m.Retries, m.Denied, m.MeanIterations, m.Timed = r.FirstTime, r.Retries, r.Denied, r.Iterations, r.Timed
	for i, name := range phase.Names() {
		if i < len(r.Phases) {
			m.Phases = append(m.Phases, &deckhandv1.PhaseTime{Phase: name, Total: durationpb.New(r.Phases[i])})
		}
	}
	return m
}
