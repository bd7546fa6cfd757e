package edge

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// NodeStore is what the edge asks of the hub's store. Its calls come from many
// links at once.
type NodeStore interface {
	// OpenSession records that this replica has the node's link and returns the session's
	// epoch, which is greater than every earlier one of that node. It refuses a node that
	// is not known in that organisation (fault.NotFound), and one that was revoked or has
	// another key (fault.Denied); the reason is sent to the node.
	OpenSession(ctx context.Context, node ca.Node, replica string) (epoch int64, err error)
	// UpdateHello stores what the node reported about itself.
	UpdateHello(ctx context.Context, nodeID string, epoch int64, hello *nodev1.SessionResponse_Hello) error
	// Touch records a heartbeat of the nodes of these sessions, one session per node. It
	// returns the sessions that are over, by node, and why: fault.Aborted if a later
	// session has replaced it, and fault.NotFound or fault.Denied if the node was removed
	// or revoked. Their links are dropped; an error of Touch itself leaves all links
	// unchanged.
	Touch(ctx context.Context, sessions []Session) (over map[string]error, err error)
	// SetPressure stores why nothing new may start on the node, "" for nothing, unless a
	// later session has replaced this one. It returns the organisation whose tasks are
	// affected, "" if nothing has changed.
	SetPressure(ctx context.Context, nodeID string, epoch int64, why string) (orgID string, err error)
	// CloseSession records that the link is gone, unless a later session has
	// taken over.
	CloseSession(ctx context.Context, nodeID string, epoch int64) error
}

// Session is a node's session as the store knows it.
type Session struct {
	NodeID string
	Epoch  int64
}
