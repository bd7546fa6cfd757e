package nodetest

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// listing lists the ledger of a node that has one.
type listing struct {
	nodev1.UnimplementedNodeServiceServer

	ledger *ledger.Ledger // nil for none
}

// ListLedger returns a page of the ledger.
func (l listing) ListLedger(ctx context.Context, req *nodev1.ListLedgerRequest) (*nodev1.ListLedgerResponse, error) {
	if l.ledger == nil {
		return l.UnimplementedNodeServiceServer.ListLedger(ctx, req)
	}
	out, err := l.ledger.List(ctx, req)
	return out, fault.ToGRPC(err)
}

// begin runs a command in the background. The caller holds the node's lock.
func begin(n *Node, spec *nodev1.ExecSpec, at *timestamppb.Timestamp) *command {
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{Live: newLive(spec), done: make(chan struct{}), cancel: cancel, exec: &nodev1.Exec{
		ExecId: spec.GetExecId(), JailId: spec.GetJailId(), State: nodev1.ExecState_EXEC_STATE_RUNNING, CreatedAt: at, StartedAt: at,
	}}
	n.execs[spec.GetExecId()] = c
	go func() {
		defer cancel()
		end := n.run(ctx, c.Live)
		n.mu.Lock()
		defer n.mu.Unlock()
		c.exec = &nodev1.Exec{
			ExecId: spec.GetExecId(), JailId: spec.GetJailId(), State: nodev1.ExecState_EXEC_STATE_ENDED,
			EndReason: end.GetEndReason(), ExitCode: end.GetExitCode(), Signal: end.GetSignal(), StartError: end.GetStartError(), Workspace: end.GetWorkspace(), Egress: end.GetEgress(),
			KilledBy: c.killer, LogBytes: c.end(), CreatedAt: at, StartedAt: at, EndedAt: timestamppb.Now(),
		}
		if n.cfg.Ledger != nil {
			if err := n.cfg.Ledger.FinishExecs(context.WithoutCancel(ctx), []*nodev1.Exec{c.exec}); err != nil && n.cfg.Log != nil {
				n.cfg.Log.Error("cannot record an end", "exec_id", spec.GetExecId(), "error", err)
			}
		}
		close(c.done)
	}()
	return c
}

// adopt takes over what is on the node's ledger.
func adopt(ctx context.Context, n *Node) error {
	if n.cfg.Ledger == nil {
		return nil
	}
	records, err := n.cfg.Ledger.Execs(ctx, "", false)
	if err != nil {
		return fmt.Errorf("read the simulated node's ledger: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, rec := range records {
		if rec.GetResult() == nil {
			begin(n, rec.GetSpec(), rec.GetCreatedAt())
			continue
		}
		ended := &command{Live: newLive(rec.GetSpec()), done: make(chan struct{}), cancel: func() {}, exec: rec.GetResult()}
		close(ended.done)
		n.execs[rec.GetSpec().GetExecId()] = ended
	}
	return nil
}
