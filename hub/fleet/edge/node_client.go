package edge

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fair"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// NodeClient calls a node's services, over its local link or through the replica that has
// the link. Callers cannot tell the difference. Calls return errors of package fault:
// fault.Unavailable (AGENT_018) if the connection breaks during the call, in which case
// it is unknown whether the node did what was requested.
type NodeClient struct{ calls grpc.ClientConnInterface }

// resting suspends a caller's turn while it waits for a node.
type resting struct{ grpc.ClientConnInterface }

// Invoke makes a call with one response.
func (r resting) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	defer fair.Rest(ctx)()
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// NewStream begins a call with a stream.
func (r resting) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	defer fair.Rest(ctx)()
	stream, err := r.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return restingStream{stream}, nil
}

type restingStream struct{ grpc.ClientStream }

// RecvMsg waits for the next message.
func (s restingStream) RecvMsg(m any) error {
	defer fair.Rest(s.Context())()
	return s.ClientStream.RecvMsg(m)
}

// Exec returns the node's exec service.
func (w NodeClient) Exec() nodev1.ExecServiceClient {
	return nodev1.NewExecServiceClient(resting{w.calls})
}

// Jails returns the node's jail service.
func (w NodeClient) Jails() nodev1.JailServiceClient {
	return nodev1.NewJailServiceClient(resting{w.calls})
}

// Files returns the node's file service.
func (w NodeClient) Files() nodev1.FileServiceClient {
	return nodev1.NewFileServiceClient(resting{w.calls})
}

// Snapshots returns the node's snapshot service.
func (w NodeClient) Snapshots() nodev1.SnapshotServiceClient {
	return nodev1.NewSnapshotServiceClient(resting{w.calls})
}

// Egress returns the hub's own way out through the node.
func (w NodeClient) Egress() nodev1.EgressServiceClient {
	return nodev1.NewEgressServiceClient(resting{w.calls})
}

// Images returns the node's image service.
func (w NodeClient) Images() nodev1.ImageServiceClient {
	return nodev1.NewImageServiceClient(resting{w.calls})
}

// Packs returns the node's pack service.
func (w NodeClient) Packs() nodev1.PackServiceClient {
	return nodev1.NewPackServiceClient(resting{w.calls})
}

// Node returns the service about the node as a whole.
func (w NodeClient) Node() nodev1.NodeServiceClient {
	return nodev1.NewNodeServiceClient(resting{w.calls})
}

// Telemetry returns the node's telemetry service.
func (w NodeClient) Telemetry() nodev1.TelemetryServiceClient {
	return nodev1.NewTelemetryServiceClient(resting{w.calls})
}

// ReplicaLocation is where a node's link is.
type ReplicaLocation struct {
	Replica string
	// Address is the host:port of that replica's edge.
	Address string
	Epoch   int64
}

// Locator finds the replica that has a node's link.
type Locator interface {
	// Locate returns where a node's link is: fault.NotFound when no replica
	// that lives holds one.
	Locate(ctx context.Context, nodeID string) (ReplicaLocation, error)
}

// locateTimeout bounds the question which replica holds a node.
const locateTimeout = 5 * time.Second

// Node returns the way to a node, wherever its link is; fault.Unavailable
// (AGENT_018) when no replica has one.
func (e *Edge) Node(nodeID string) (NodeClient, error) {
	link, err := e.Local(nodeID)
	if err == nil {
		return link.NodeClient, nil
	}
	if e.cfg.Directory == nil {
		return NodeClient{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), locateTimeout)
	defer cancel()
	place, lerr := e.cfg.Directory.Locate(ctx, nodeID)
	if lerr != nil {
		return NodeClient{}, unavailable(nodeID, "is not connected").WithCause(lerr)
	}
	if place.Replica == e.cfg.Replica {
		return NodeClient{}, err // the row has not caught up with the link's end
	}
	return NodeClient{&remote{peers: e.peers, nodeID: nodeID, place: place}}, nil
}
