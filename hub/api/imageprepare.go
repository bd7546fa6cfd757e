package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// nodesAtOnce is the size of the pages in which nodes are read.
const nodesAtOnce = 500

// PrepareImage pulls an agent's image and runs its setup.
func (h *Images) PrepareImage(ctx context.Context, req *deckhandv1.PrepareImageRequest, stream *connect.ServerStream[deckhandv1.PrepareImageResponse]) error {
	who := auth.From(ctx)
	agentID, err := h.Agents.Find(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return err
	}
	row, err := h.Agents.Get(ctx, who.OrgID, agentID)
	if err != nil {
		return err
	}
	version, err := h.Agents.Version(ctx, who.OrgID, agentID, row.Agent.CurrentVersion)
	if err != nil {
		return err
	}
	p, err := h.Agents.Persona(version.Digest, version.Markdown)
	if err != nil {
		return err
	}
	if p.Jail.Image == persona.DevcontainerImage {
		return fault.New(fault.Precondition, "the image of agent %s is named by the devcontainer.json of each workspace", row.Agent.Name).WithObject(agentID).
			WithFix("run a task, which reads it, or name an image in jail.image")
	}
	if p.Jail.Image == "" {
		return fault.New(fault.Precondition, "agent %s has no image: its jail has the machine's own system folders", row.Agent.Name).
			WithObject(agentID).WithFix("name one in jail.image")
	}
	nodes, err := h.nodesFor(ctx, who.OrgID, req.GetNodeId(), p)
	if err != nil {
		return err
	}
	var failed []error
	for _, on := range nodes {
		if err := h.prepare(ctx, who, agentID, p, on, stream); err != nil {
			if ctx.Err() != nil || len(nodes) == 1 {
				return err
			}
			failed = append(failed, fmt.Errorf("node %s: %w", on.Name, err))
		}
	}
	if len(failed) > 0 {
		return fault.New(fault.Precondition, "the image is not on %d of %d nodes: %v", len(failed), len(nodes), errors.Join(failed...)).WithCode(fault.ImageUnavailable)
	}
	return nil
}

// nodesFor returns the node that ref names, or all that a persona may use and that are
// connected.
func (h *Images) nodesFor(ctx context.Context, orgID, ref string, p *persona.Persona) (out []db.Node, err error) {
	if ref != "" {
		on, err := h.node(ctx, ref)
		if err == nil && !node.Fits(p.Nodes, on) {
			err = fault.New(fault.Invalid, "the agent may not use node %s", on.Name).WithObject(on.ID).WithFix("change nodes in its persona, or name another node")
		}
		return []db.Node{on}, err
	}
	for token, more := "", true; more; more = token != "" {
		var page []node.Record
		if page, token, err = h.Nodes.List(ctx, orgID, token, nodesAtOnce); err != nil {
			return nil, err
		}
		for _, one := range page {
			if one.Connected && one.Node.RevokedAt == nil && node.Fits(p.Nodes, one.Node) {
				out = append(out, one.Node)
			}
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Unavailable, "no node that the agent may use is connected").WithCode(fault.NodeUnavailable).WithFix("see: deckhand node list")
	}
	return out, nil
}

// prepare pulls an image to one node and runs its setup there.
func (h *Images) prepare(ctx context.Context, who auth.Identity, agentID string, p *persona.Persona, on db.Node, stream *connect.ServerStream[deckhandv1.PrepareImageResponse]) error {
	if err := image.RequireFor(on, p.Jail); err != nil {
		return err
	}
	link, err := h.Link(on.ID)
	if err != nil {
		return err
	}
	send := func(m *deckhandv1.PrepareImageResponse) {
		m.Node = on.Name
		_ = stream.Send(m) // if the caller is gone, ctx ends as well
	}
	have, err := h.Images.Pull(ctx, who.OrgID, link, image.Wanted{Name: p.Jail.Image, Jail: p.Jail}, func(at *nodev1.PullImageResponse_Progress) {
		send(&deckhandv1.PrepareImageResponse{Pull: pullMessage(at)})
	})
	if err != nil {
		return err
	}
	if have.GetSetup() != p.Jail.SetupDigest() {
		err := h.Setups.Ensure(ctx, setup.Want{
			OrgID: who.OrgID, AgentID: agentID, Node: on, Link: link, Image: have.GetReference(), Jail: p.Jail, WorkspaceBytes: p.Workspace.SizeBytes, By: userOf(who),
		}, func(at setup.Progress) {
			send(&deckhandv1.PrepareImageResponse{Line: int32(at.Line), Lines: int32(at.Lines), Command: at.Command, ExecId: at.ExecID}) //nolint:gosec // at most 50
		})
		if err != nil {
			return err
		}
		have.Setup = p.Jail.SetupDigest()
	}
	return stream.Send(&deckhandv1.PrepareImageResponse{Node: on.Name, Image: imageMessage(have)})
}
