package artifact

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Sync copies files between a task's workspace and the jail of its agent on another of
// its nodes, for a step. That jail is created if it does not exist.
func (a *Artifacts) Sync(ctx context.Context, t db.Task, p *persona.Persona, stepID string, s tool.SyncRequest) (tool.SyncResult, error) {
	home, err := a.PlaceOf(ctx, t)
	if err != nil {
		return tool.SyncResult{}, err
	}
	other, err := a.other(ctx, t, p, home, s.Node)
	if err != nil {
		return tool.SyncResult{}, err
	}
	from, to := home, other
	if s.From {
		from, to = other, home
	}
	c, err := a.Collect(ctx, t.OrgID, t.ID, from, s.Paths)
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return tool.SyncResult{}, err
	}
	o := Options{Overwrite: s.Overwrite, OperationID: stepID}
	sent, err := a.Send(ctx, c, to, o)
	if err != nil {
		return tool.SyncResult{}, err
	}
	err = a.cfg.Recorder.Tx(context.WithoutCancel(ctx), func(tx *event.Tx) error { return a.Done(ctx, tx, c, to, o, sent, event.Hub) })
	return tool.SyncResult{
		Files: sent.Files, Unchanged: sent.Unchanged, Bytes: sent.Bytes, Skipped: c.Skipped, NodeID: to.NodeID, Workspace: sent.Workspace,
	}, err
}

// other returns the agent's workspace on another node that the persona may use.
func (a *Artifacts) other(ctx context.Context, t db.Task, p *persona.Persona, home Place, ref string) (Place, error) {
	id, err := a.cfg.Nodes.Find(ctx, t.OrgID, ref)
	if err != nil {
		return Place{}, err
	}
	there, err := a.cfg.Nodes.Get(ctx, t.OrgID, id)
	if err != nil {
		return Place{}, err
	}
	switch {
	case id == home.NodeID:
		return Place{}, fault.New(fault.Invalid, "%s is the node that your workspace is on", ref).WithCode(fault.InvalidParameters).
			WithFix("name another one")
	case there.Node.RevokedAt != nil || !node.Fits(p.Nodes, there.Node):
		return Place{}, fault.New(fault.Denied, "the persona's nodes do not include %s", there.Node.Name).WithCode(fault.PermissionDenied).
			WithFix("name a node that the persona's nodes key allows")
	}
	if _, err := a.cfg.Node(id); err != nil {
		return Place{}, fault.New(fault.Precondition, "node %s is not connected", there.Node.Name).WithCode(fault.NodeUnavailable).
			WithObject(id).WithFix("try again later, or go on without it").WithCause(err)
	}
	return Place{NodeID: id, Jail: home.Jail}, nil
}

// On returns a workspace's counterpart on a node that is named, or the place
// itself for "".
func (a *Artifacts) On(ctx context.Context, orgID string, at Place, ref string) (Place, error) {
	if ref == "" {
		return at, nil
	}
	id, err := a.cfg.Nodes.Find(ctx, orgID, ref)
	if err != nil {
		return at, fmt.Errorf("find node %q: %w", ref, err)
	}
	at.NodeID = id
	return at, nil
}
