// Package pack has nodes install programs that all of their jails are shown, such as Chromium, and
// lists and deletes them; see node/pack, which does it. Packs reaches a node over its link. What a
// person has done is audited once the node has done it, or its response is lost.
package pack

import (
	"context"
	"errors"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// longest bounds a download or an import.
	longest = time.Hour
	// auditTime bounds an entry of the audit log.
	auditTime = 10 * time.Second
)

// Packs is how the hub reaches the packs of nodes.
type Packs struct {
	Recorder *event.Recorder
	// Node returns the link to a node that is connected.
	Node func(nodeID string) (machine.Link, error)
}

func (p *Packs) client(on db.Node) (nodev1.PackServiceClient, error) {
	if err := node.Require(on, nodelink.Packs, "install packs through the hub"); err != nil {
		return nil, err
	}
	link, err := p.Node(on.ID)
	if err != nil {
		return nil, err
	}
	return link.Packs(), nil
}

// List returns the packs on a node.
func (p *Packs) List(ctx context.Context, on db.Node) ([]*nodev1.Pack, error) {
	client, err := p.client(on)
	if err != nil {
		return nil, err
	}
	res, err := client.ListPacks(ctx, &nodev1.ListPacksRequest{})
	return res.GetPacks(), fault.FromGRPC(err)
}

// Fetch has a node download the archive of a pin and install it.
func (p *Packs) Fetch(ctx context.Context, on db.Node, pin *nodev1.Pin, by event.Actor) (*nodev1.Pack, error) {
	client, err := p.client(on)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	res, err := client.FetchPack(ctx, &nodev1.FetchPackRequest{Pin: pin})
	if err != nil {
		return nil, p.failed(ctx, err, on, by, "node.pack_installed", map[string]any{"name": pin.GetName(), "sha256": pin.GetSha256()})
	}
	return res.GetPack(), p.installed(ctx, on, by, res.GetPack())
}

// Import has a node install the archive of a pin. next returns the archive's bytes, and io.EOF at
// the end.
func (p *Packs) Import(ctx context.Context, on db.Node, pin *nodev1.Pin, by event.Actor, next func() ([]byte, error)) (*nodev1.Pack, error) {
	client, err := p.client(on)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	out, err := client.ImportPack(ctx)
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	if out.Send(&nodev1.ImportPackRequest{Pin: pin}) == nil {
		if err := bytestream.Forward(next, func(data []byte) error { return out.Send(&nodev1.ImportPackRequest{Data: data}) }); err != nil {
			return nil, err
		}
	}
	// The response has the cause of an error of Send.
	res, err := out.CloseAndRecv()
	if err != nil {
		return nil, p.failed(ctx, err, on, by, "node.pack_installed", map[string]any{"name": pin.GetName(), "sha256": pin.GetSha256()})
	}
	return res.GetPack(), p.installed(ctx, on, by, res.GetPack())
}

// Prune deletes versions of packs from a node. It returns those that it deleted, and those that it
// kept since a process uses them.
func (p *Packs) Prune(ctx context.Context, on db.Node, names []string, by event.Actor) (deleted, kept []*nodev1.Pack, err error) {
	client, err := p.client(on)
	if err != nil {
		return nil, nil, err
	}
	res, err := client.PrunePacks(ctx, &nodev1.PrunePacksRequest{Names: names})
	if err != nil {
		return nil, nil, p.failed(ctx, err, on, by, "node.packs_pruned", map[string]any{"names": names})
	}
	var gone []any
	for _, one := range res.GetDeleted() {
		gone = append(gone, map[string]any{"name": one.GetName(), "sha256": one.GetSha256()})
	}
	if len(gone) > 0 {
		err = p.audited(ctx, on, by, "node.packs_pruned", map[string]any{"packs": gone})
	}
	return res.GetDeleted(), res.GetKept(), err
}

func (p *Packs) installed(ctx context.Context, on db.Node, by event.Actor, one *nodev1.Pack) error {
	return p.audited(ctx, on, by, "node.pack_installed", map[string]any{"name": one.GetName(), "sha256": one.GetSha256(), "source": one.GetSource()})
}

// failed returns the error of a call to a node. If the node has maybe done it all the same, since its
// response is lost, that is audited.
func (p *Packs) failed(ctx context.Context, err error, on db.Node, by event.Actor, action string, after map[string]any) error {
	err = fault.FromGRPC(err)
	if ctx.Err() == nil && !fault.Is(err, fault.Unavailable) {
		return err
	}
	after["outcome"] = "unknown"
	if failed := p.audited(ctx, on, by, action, after); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// audited writes an entry of the audit log, also if the person has gone.
func (p *Packs) audited(ctx context.Context, on db.Node, by event.Actor, action string, after map[string]any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	return p.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{OrgID: on.OrgID, By: by, Action: action, ObjectKind: "node", ObjectID: on.ID, After: after})
	})
}
