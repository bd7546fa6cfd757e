package daemon

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// nodeServer is the node as a whole to its hub.
type nodeServer struct {
	nodev1.UnimplementedNodeServiceServer

	d *Daemon
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

// drainedExecs is the exec service of a node that may be drained: it starts
// nothing then, and answers for all that was started before.
type drainedExecs struct {
	*exec.Service

	jails *jail.Manager
}

// StartExec implements the service.
func (e drainedExecs) StartExec(ctx context.Context, req *nodev1.StartExecRequest) (*nodev1.StartExecResponse, error) {
	if refused := e.jails.Accepting(); refused != nil {
		_, err := e.GetExec(ctx, &nodev1.GetExecRequest{ExecId: req.GetSpec().GetExecId()})
		if fault.Is(fault.FromGRPC(err), fault.NotFound) {
			return nil, fault.ToGRPC(refused)
		}
		if err != nil {
			return nil, err
		}
	}
	return e.Service.StartExec(ctx, req)
}
