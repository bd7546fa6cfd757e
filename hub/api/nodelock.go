package api

import (
	"cmp"
	"context"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func userOf(id auth.Identity) node.User {
	return node.User{ID: id.UserID, Name: id.UserName, Address: id.Address, UserAgent: id.UserAgent}
}

// DrainNode keeps new tasks off a node.
func (h *Nodes) DrainNode(ctx context.Context, req *deckhandv1.DrainNodeRequest) (*deckhandv1.DrainNodeResponse, error) {
	row, err := h.find(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	active, err := h.Nodes.Drain(ctx, row.Node, userOf(auth.From(ctx)), req.GetReason())
	if err != nil {
		return nil, err
	}
	if row, err = h.Nodes.Get(ctx, row.Node.OrgID, row.Node.ID); err != nil {
		return nil, err
	}
	seen, err := h.seen(ctx, row.Lock)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.DrainNodeResponse{Node: nodeMessage(row, seen), ActiveTasks: int32(active)}, nil //nolint:gosec // bounded by the slots
}

// UndrainNode lets tasks start on a node again.
func (h *Nodes) UndrainNode(ctx context.Context, req *deckhandv1.UndrainNodeRequest) (*deckhandv1.UndrainNodeResponse, error) {
	row, err := h.find(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	if err := h.Nodes.Undrain(ctx, row.Node, userOf(auth.From(ctx))); err != nil {
		return nil, err
	}
	if row, err = h.Nodes.Get(ctx, row.Node.OrgID, row.Node.ID); err != nil {
		return nil, err
	}
	seen, err := h.seen(ctx, row.Lock)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UndrainNodeResponse{Node: nodeMessage(row, seen)}, nil
}

// LockNode takes a node for work on the machine itself.
func (h *Nodes) LockNode(ctx context.Context, req *deckhandv1.LockNodeRequest) (*deckhandv1.LockNodeResponse, error) {
	row, err := h.find(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	lock, active, err := h.Nodes.Lock(ctx, row.Node, userOf(auth.From(ctx)), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.LockNodeResponse{
		Lock: lockMessage(lock, row.Node.Name, nil), ActiveTasks: int32(active), //nolint:gosec // bounded by the slots
	}, nil
}

// UnlockNode releases a node's lock.
func (h *Nodes) UnlockNode(ctx context.Context, req *deckhandv1.UnlockNodeRequest) (*deckhandv1.UnlockNodeResponse, error) {
	row, err := h.find(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	if err := h.Nodes.Unlock(ctx, row.Node, userOf(auth.From(ctx)), req.GetForce()); err != nil {
		return nil, err
	}
	if row, err = h.Nodes.Get(ctx, row.Node.OrgID, row.Node.ID); err != nil {
		return nil, err
	}
	seen, err := h.seen(ctx, row.Lock)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UnlockNodeResponse{Node: nodeMessage(row, seen)}, nil
}

// ListNodeLocks returns the locks that are held, and those that were.
func (h *Nodes) ListNodeLocks(ctx context.Context, req *deckhandv1.ListNodeLocksRequest) (*deckhandv1.ListNodeLocksResponse, error) {
	org, nodeID := auth.From(ctx).OrgID, ""
	if ref := req.GetNodeId(); ref != "" {
		id, err := h.Nodes.Find(ctx, org, ref)
		if err != nil {
			return nil, err
		}
		nodeID = id
	}
	rows, next, err := h.Nodes.Locks(ctx, org, nodeID, req.GetReleased(), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	locks := make([]*db.NodeLock, len(rows))
	for i := range rows {
		locks[i] = &rows[i].NodeLock
	}
	seen, err := h.seen(ctx, locks...)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListNodeLocksResponse{NextPageToken: next}
	for _, row := range rows {
		res.Locks = append(res.Locks, lockMessage(row.NodeLock, row.NodeName, seen))
	}
	return res, nil
}
