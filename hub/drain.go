package hub

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// tellTimeout bounds telling a node of what was decided here.
const tellTimeout = 5 * time.Second

// tellDrain tells a node whether it is drained, as the database has it. The
// hub keeps new tasks off by itself; the node refuses new jails besides. One
// that is not connected here is told when its next session starts.
func (h *Hub) tellDrain(ctx context.Context, nodeID string) {
	// One after another: of two, the one that read last is told last.
	h.drains.Lock()
	defer h.drains.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	link, err := h.edge.Node(nodeID)
	if err != nil {
		return
	}
	row, err := h.store.NodeByID(ctx, nodeID)
	if err == nil {
		_, err = link.Node().SetDrain(ctx, &nodev1.SetDrainRequest{
			Draining: row.DrainedAt != nil, Reason: firstRunes(row.DrainReason, maxDrainReason),
		})
	}
	if err != nil && status.Code(err) != codes.Unimplemented { // a node of before
		h.cfg.Log.Info("a node could not be told whether it is drained; it will be when it connects again", "node_id", nodeID, "reason", err)
	}
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
