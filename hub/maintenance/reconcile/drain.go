package reconcile

import (
	"context"
	"hash/fnv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// drainTimeout bounds telling a node whether it is drained.
const drainTimeout = 5 * time.Second

// sendDrain tells a node whether it is drained, as the database has it. The
// hub keeps new tasks off by itself; the node also refuses new jails. A node that
// is not connected here is told when its next session starts. It returns the state
// of the node that it read, nil if that failed, and whether the node was told.
func (r *Reconciler) sendDrain(ctx context.Context, nodeID string) (read *db.NodeStandingRow, told bool) {
	// One call at a time for each node: of two states, the one that was read last
	// is sent last. A node that does not reply delays few others.
	stripe := &r.drains[stripeOf(nodeID)]
	stripe.Lock()
	defer stripe.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	link, err := r.cfg.Edge.Node(nodeID)
	if err != nil {
		return nil, false
	}
	row, err := r.cfg.Store.NodeStanding(ctx, nodeID)
	if err == nil {
		read = &row
		_, err = link.Node().SetDrain(ctx, &nodev1.SetDrainRequest{
			Draining: row.DrainedAt != nil, Reason: textcut.Runes(row.DrainReason, maxDrainReason, ""),
		})
	}
	told = err == nil || status.Code(err) == codes.Unimplemented // an older node
	if !told {
		r.cfg.Log.Info("a node could not be told whether it is drained; it will be told again, or when it connects", "node_id", nodeID, "reason", err)
	}
	return read, told
}

// nodeDrainChanged tells a node at once, and again if that fails. A node that is
// connected to another replica is told again when it reconnects.
func (r *Reconciler) nodeDrainChanged(ctx context.Context, nodeID string) {
	if _, told := r.sendDrain(ctx, nodeID); told {
		return
	}
	if link, err := r.cfg.Edge.Local(nodeID); err == nil {
		r.background.Go(func() { r.retryDrain(link) })
	}
}

// retryDrain is sendDrain for as long as a link lasts, until its node was told.
func (r *Reconciler) retryDrain(link *edge.Link) {
	for n, told := 1, false; !told; n++ {
		select {
		case <-link.Done():
			return
		case <-time.After(backoff.Policy{}.Delay(n)):
			_, told = r.sendDrain(context.Background(), link.NodeID())
		}
	}
}

// stripes is the number of locks that nodes share.
const stripes = 64

// stripeOf returns the index of a node's lock, which other nodes may share.
func stripeOf(nodeID string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(nodeID))
	return h.Sum32() % stripes
}

// maxDrainReason is how many characters of a reason are sent to a node.
const maxDrainReason = 200
