package api

import (
	"cmp"
	"context"
	"io"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/fleet/pack"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Packs serves PackService.
type Packs struct {
	Nodes *node.Nodes
	Packs *pack.Packs
}

func (h *Packs) node(ctx context.Context, ref string) (db.Node, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Nodes.Find(ctx, org, ref)
	if err != nil {
		return db.Node{}, err
	}
	row, err := h.Nodes.Get(ctx, org, id)
	return row.Node, err
}

// ListPacks returns the packs on a node.
func (h *Packs) ListPacks(ctx context.Context, req *deckhandv1.ListPacksRequest) (*deckhandv1.ListPacksResponse, error) {
	on, err := h.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	all, err := h.Packs.List(ctx, on)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ListPacksResponse{Packs: packMessages(all)}, nil
}

// FetchPack has a node download a pack.
func (h *Packs) FetchPack(ctx context.Context, req *deckhandv1.FetchPackRequest) (*deckhandv1.FetchPackResponse, error) {
	on, err := h.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	if (req.GetUrl() == "") != (req.GetSha256() == "") {
		return nil, fault.New(fault.Invalid, "url and sha256 belong together").WithFix("give both, or neither for what the node's own file of pins says")
	}
	one, err := h.Packs.Fetch(ctx, on, &nodev1.Pin{Name: req.GetName(), Url: req.GetUrl(), Sha256: req.GetSha256()}, actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.FetchPackResponse{Pack: packMessage(one)}, nil
}

// dataOf returns the bytes of the messages of a stream, one after the other.
func dataOf[T any, P interface {
	*T
	GetData() []byte
}](in *connect.ClientStream[T]) func() ([]byte, error) {
	return func() ([]byte, error) {
		if in.Receive() {
			return P(in.Msg()).GetData(), nil
		}
		return nil, cmp.Or(in.Err(), io.EOF)
	}
}

// ImportPack has a node install the archive of a pack.
func (h *Packs) ImportPack(ctx context.Context, in *connect.ClientStream[deckhandv1.ImportPackRequest]) (*deckhandv1.ImportPackResponse, error) {
	if !in.Receive() {
		return nil, cmp.Or(in.Err(), error(fault.New(fault.Invalid, "the import is empty").WithFix("begin with node_id, name and sha256")))
	}
	first := in.Msg()
	on, err := h.node(ctx, first.GetNodeId())
	if err != nil {
		return nil, err
	}
	one, err := h.Packs.Import(ctx, on, &nodev1.Pin{Name: first.GetName(), Sha256: first.GetSha256()}, actor(auth.From(ctx)), dataOf(in))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ImportPackResponse{Pack: packMessage(one)}, nil
}

// PrunePacks deletes packs from a node.
func (h *Packs) PrunePacks(ctx context.Context, req *deckhandv1.PrunePacksRequest) (*deckhandv1.PrunePacksResponse, error) {
	on, err := h.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	deleted, kept, err := h.Packs.Prune(ctx, on, req.GetNames(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PrunePacksResponse{Deleted: packMessages(deleted), Kept: packMessages(kept)}, nil
}

func packMessages(all []*nodev1.Pack) (out []*deckhandv1.NodePack) {
	for _, one := range all {
		out = append(out, packMessage(one))
	}
	return out
}

func packMessage(one *nodev1.Pack) *deckhandv1.NodePack {
	return &deckhandv1.NodePack{
		Name: one.GetName(), Sha256: one.GetSha256(), Source: one.GetSource(), Bytes: one.GetBytes(), Files: one.GetFiles(), InstalledAt: one.GetInstalledAt(),
		Current: one.GetCurrent(), InUse: one.GetInUse(), Broken: one.GetBroken(),
	}
}
