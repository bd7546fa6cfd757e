package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/fleet/rollout"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Nodes serves NodeService.
type Nodes struct {
	Nodes *node.Nodes
	// CAFingerprint goes into join tokens.
	CAFingerprint string
	// Rollouts upgrade the nodes.
	Rollouts *rollout.Service
	// Drop ends a node's link.
	Drop func(nodeID, reason string)
}

// ListNodes returns the organisation's nodes by name, a page at a time.
func (h *Nodes) ListNodes(ctx context.Context, req *deckhandv1.ListNodesRequest) (*deckhandv1.ListNodesResponse, error) {
	ctx, total := withTotal(ctx, req)
	rows, next, err := h.Nodes.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	locks := make([]*db.NodeLock, len(rows))
	for i, row := range rows {
		locks[i] = row.Lock
	}
	seen, err := h.seen(ctx, locks...)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListNodesResponse{NextPageToken: next}
	for _, row := range rows {
		res.Nodes = append(res.Nodes, nodeMessage(row, seen))
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// GetNode returns one node.
func (h *Nodes) GetNode(ctx context.Context, req *deckhandv1.GetNodeRequest) (*deckhandv1.GetNodeResponse, error) {
	row, err := h.find(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	seen, err := h.seen(ctx, row.Lock)
	if err != nil {
		return nil, err
	}
	active, err := h.Nodes.Active(ctx, row.Node)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetNodeResponse{Node: nodeMessage(row, seen), ActiveTasks: int32(active)}, nil //nolint:gosec // bounded by the slots
}

// seen returns the tasks that took some locks and that the caller sees.
func (h *Nodes) seen(ctx context.Context, locks ...*db.NodeLock) (map[string]bool, error) {
	v := viewer(ctx)
	return h.Nodes.SeenTasks(ctx, v.OrgID, v.Name, v.All, locks)
}

func (h *Nodes) find(ctx context.Context, ref string) (node.Record, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Nodes.Find(ctx, org, ref)
	if err != nil {
		return node.Record{}, err
	}
	return h.Nodes.Get(ctx, org, id)
}

const joinTokenTTL = time.Hour

// CreateJoinToken creates a single-use token that enrols one node.
func (h *Nodes) CreateJoinToken(ctx context.Context, req *deckhandv1.CreateJoinTokenRequest) (*deckhandv1.CreateJoinTokenResponse, error) {
	ttl := joinTokenTTL
	if d := req.GetTtl(); d != nil {
		ttl = d.AsDuration()
	}
	id := auth.From(ctx)
	token, expires, err := h.Nodes.CreateJoinToken(ctx, id.OrgID, userOf(id), h.CAFingerprint, ttl, req.GetLabels())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.CreateJoinTokenResponse{Token: token.Reveal(), ExpiresAt: timestamppb.New(expires)}, nil
}

// RevokeNode ends a node's right to connect and drops its link.
func (h *Nodes) RevokeNode(ctx context.Context, req *deckhandv1.RevokeNodeRequest) (*deckhandv1.RevokeNodeResponse, error) {
	row, err := h.find(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	if err := h.Nodes.Revoke(ctx, row.Node, userOf(auth.From(ctx))); err != nil {
		return nil, err
	}
	h.Drop(row.Node.ID, "the node was revoked")
	row, err = h.Nodes.Get(ctx, row.Node.OrgID, row.Node.ID)
	if err != nil {
		return nil, err
	}
	seen, err := h.seen(ctx, row.Lock)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RevokeNodeResponse{Node: nodeMessage(row, seen)}, nil
}
