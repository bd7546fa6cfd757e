package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/rollout"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// allNodes is the percentage of a rollout to every node.
const allNodes = 100

// UpgradeNodes begins a rollout.
func (h *Nodes) UpgradeNodes(ctx context.Context, req *deckhandv1.UpgradeNodesRequest) (*deckhandv1.UpgradeNodesResponse, error) {
	id := auth.From(ctx)
	row, err := h.Rollouts.Start(ctx, id.OrgID, rollout.Request{
		Version: req.GetVersion(), Labels: req.GetLabels(), Percent: cmp.Or(req.GetPercent(), allNodes), MaxFailures: req.GetMaxFailures(),
	}, userOf(id).Actor())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UpgradeNodesResponse{Rollout: rolloutMessage(row)}, nil
}

// ListNodeRollouts returns the rollouts, the newest first.
func (h *Nodes) ListNodeRollouts(ctx context.Context, req *deckhandv1.ListNodeRolloutsRequest) (*deckhandv1.ListNodeRolloutsResponse, error) {
	rows, next, err := h.Rollouts.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListNodeRolloutsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Rollouts = append(res.Rollouts, rolloutMessage(row))
	}
	return res, nil
}

// StopNodeRollout ends the rollout that runs.
func (h *Nodes) StopNodeRollout(ctx context.Context, req *deckhandv1.StopNodeRolloutRequest) (*deckhandv1.StopNodeRolloutResponse, error) {
	id := auth.From(ctx)
	row, err := h.Rollouts.Stop(ctx, id.OrgID, cmp.Or(req.GetReason(), "stopped by a person"), userOf(id).Actor())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.StopNodeRolloutResponse{Rollout: rolloutMessage(row)}, nil
}

func rolloutMessage(r rollout.Record) *deckhandv1.NodeRollout {
	m := &deckhandv1.NodeRollout{
		Id: r.ID, Version: r.Version, Labels: rollout.Labels(r.NodeRollout), Percent: r.Percent, MaxFailures: r.MaxFailures,
		State: r.State, Reason: r.Reason, CreatedBy: r.CreatedBy, CreatedAt: timestamppb.New(r.CreatedAt), EndedAt: timestamp(r.EndedAt),
		Waiting:   int32(r.Waiting), //nolint:gosec // a number of nodes
		Upgrading: r.Counts[rollout.Upgrading], Installed: r.Counts[rollout.Installed], Failed: r.Counts[rollout.Failed],
	}
	for _, n := range r.Nodes {
		m.Nodes = append(m.Nodes, &deckhandv1.NodeRolloutNode{NodeId: n.NodeID, Name: n.Name, State: n.State, Problem: n.Problem})
	}
	return m
}
