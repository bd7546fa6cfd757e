package hub

import (
	"context"
	"hash/fnv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/hub/store/db"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// tellTimeout bounds telling a node of what was decided here.
const tellTimeout = 5 * time.Second

// tellDrain tells a node whether it is drained, as the database has it. The
// hub keeps new tasks off by itself; the node refuses new jails besides. One
// that is not connected here is told when its next session starts. It answers
// what it read of the node, nil when it could not.
func (h *Hub) tellDrain(ctx context.Context, nodeID string) *db.NodeStandingRow {
	// One after another for one node: of two, the one that read last is told
	// last. A node that does not answer holds up few others.
	turn := &h.drains[turnOf(nodeID)]
	turn.Lock()
	defer turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	link, err := h.edge.Node(nodeID)
	if err != nil {
		return nil
	}
	var read *db.NodeStandingRow
	row, err := h.store.NodeStanding(ctx, nodeID)
	if err == nil {
		read = &row
		_, err = link.Node().SetDrain(ctx, &nodev1.SetDrainRequest{
			Draining: row.DrainedAt != nil, Reason: firstRunes(row.DrainReason, maxDrainReason),
		})
	}
	if err != nil && status.Code(err) != codes.Unimplemented { // a node of before
		h.cfg.Log.Info("a node could not be told whether it is drained; it will be when it connects again", "node_id", nodeID, "reason", err)
	}
	return read
}

// turns is how many nodes may be told at once, at most.
const turns = 64

// turnOf answers in whose turn a node is told: two nodes may have the same.
func turnOf(nodeID string) uint32 {
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
