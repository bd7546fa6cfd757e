package daemon

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/doctor"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// nodeServer is the node as a whole to its hub.
type nodeServer struct {
	nodev1.UnimplementedNodeServiceServer

	d *Daemon
}

// Upgrade implements the service.
func (n nodeServer) Upgrade(ctx context.Context, req *nodev1.UpgradeRequest) (*nodev1.UpgradeResponse, error) {
	if n.d.upgrades == nil {
		return nil, fault.ToGRPC(fault.New(fault.Precondition, "this node is part of deckhand up").WithFix("upgrade the package of that machine"))
	}
	ready, err := n.d.upgrades.Prepare(ctx, req)
	if err != nil {
		n.d.cfg.Log.Warn("an upgrade is refused", "version", req.GetVersion(), "error", err)
		return nil, fault.ToGRPC(err)
	}
	if ctx.Err() != nil {
		// The hub does not hear that it is ready, and says it again.
		n.d.upgrades.Drop(ready)
		return nil, fault.ToGRPC(fault.New(fault.Unavailable, "the call broke off"))
	}
	n.d.replace <- ready // there is one at most; the link ends after the response
	return &nodev1.UpgradeResponse{}, nil
}

// SetDrain implements the service.
func (n nodeServer) SetDrain(_ context.Context, req *nodev1.SetDrainRequest) (*nodev1.SetDrainResponse, error) {
	to := jail.Drain{Draining: req.GetDraining(), Reason: req.GetReason()}
	if was := n.d.jails.Drain(); was != to {
		if err := n.d.jails.SetDrain(to); err != nil {
			return nil, fault.ToGRPC(err)
		}
		n.d.cfg.Log.Info("drain", "draining", to.Draining, "reason", to.Reason)
	}
	now := n.d.jails.Drain()
	return &nodev1.SetDrainResponse{Draining: now.Draining, Reason: now.Reason}, nil
}

// GetMachine implements the service.
func (n nodeServer) GetMachine(ctx context.Context, _ *nodev1.GetMachineRequest) (*nodev1.GetMachineResponse, error) {
	info, err := n.d.journal.Info(ctx)
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	info.JournalUnits, info.BrowsePaths = n.d.cfg.JournalUnits, n.d.cfg.BrowsePaths
	return &nodev1.GetMachineResponse{Machine: info}, nil
}

// GetUnit implements the service.
func (n nodeServer) GetUnit(ctx context.Context, req *nodev1.GetUnitRequest) (*nodev1.GetUnitResponse, error) {
	properties, err := n.d.journal.Unit(ctx, req.GetUnit())
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	return &nodev1.GetUnitResponse{Properties: properties}, nil
}

// ReadJournal implements the service.
func (n nodeServer) ReadJournal(ctx context.Context, req *nodev1.ReadJournalRequest) (*nodev1.ReadJournalResponse, error) {
	out, err := n.d.journal.Read(ctx, req)
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	return out, nil
}

// ListLedger implements the service.
func (n nodeServer) ListLedger(ctx context.Context, req *nodev1.ListLedgerRequest) (*nodev1.ListLedgerResponse, error) {
	out, err := n.d.ledger.List(ctx, req)
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	return out, nil
}

// Diagnose implements the service.
func (n nodeServer) Diagnose(ctx context.Context, _ *nodev1.DiagnoseRequest) (*nodev1.DiagnoseResponse, error) {
	checks, err := n.d.cfg.Checks()
	if err != nil {
		return nil, fault.ToGRPC(err)
	}
	out := &nodev1.DiagnoseResponse{}
	for _, f := range doctor.Run(ctx, checks) {
		out.Findings = append(out.Findings, &nodev1.Finding{Check: f.Name, State: string(f.State), Evidence: f.Says, Fix: f.Fix})
	}
	return out, nil
}
