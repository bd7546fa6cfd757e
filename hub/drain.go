package hub

import (
	"context"
	"hash/fnv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// tellTimeout bounds telling a node of what was decided here.
const tellTimeout = 5 * time.Second

// sendDrain tells a node whether it is drained, as the database has it. The
// hub keeps new tasks off by itself; the node refuses new jails besides. One
// that is not connected here is told when its next session starts. It answers
// what it read of the node, nil when it could not, and whether the node was told.
func (h *Hub) sendDrain(ctx context.Context, nodeID string) (read *db.NodeStandingRow, told bool) {
	// One after another for one node: of two, the one that read last is told
	// last. A node that does not answer holds up few others.
	turn := &h.drains[stripeOf(nodeID)]
	turn.Lock()
	defer turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	link, err := h.edge.Node(nodeID)
	if err != nil {
		return nil, false
	}
	row, err := h.store.NodeStanding(ctx, nodeID)
	if err == nil {
		read = &row
		_, err = link.Node().SetDrain(ctx, &nodev1.SetDrainRequest{
			Draining: row.DrainedAt != nil, Reason: firstRunes(row.DrainReason, maxDrainReason),
		})
	}
	told = err == nil || status.Code(err) == codes.Unimplemented // a node of before
	if !told {
		h.cfg.Log.Info("a node could not be told whether it is drained; it will be told again, or when it connects", "node_id", nodeID, "reason", err)
	}
	return read, told
}

// drainChanged tells a node at once, and again where that fails. One that another
// replica holds is told again when it connects.
func (h *Hub) drainChanged(ctx context.Context, nodeID string) {
	if _, told := h.sendDrain(ctx, nodeID); told {
		return
	}
	if link, err := h.edge.Local(nodeID); err == nil {
		h.background.Go(func() { h.retryDrain(link) })
	}
}

// retryDrain is sendDrain for as long as a link lasts, until its node was told.
func (h *Hub) retryDrain(link *edge.Link) {
	for n, told := 1, false; !told; n++ {
		select {
		case <-link.Done():
			return
		case <-time.After(backoff.Policy{}.Delay(n)):
			_, told = h.sendDrain(context.Background(), link.NodeID())
		}
	}
}

// turns is how many nodes may be told at once, at most.
const turns = 64

// stripeOf returns in whose turn a node is told: two nodes may have the same.
func stripeOf(nodeID string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(nodeID))
	return h.Sum32() % turns
}

// maxDrainReason is how many characters of a reason a node takes.
const maxDrainReason = 200

func firstRunes(text string, n int) string {
	for at := range text {
		if n--; n < 0 {
			return text[:at]
		}
	}
	return text
}
