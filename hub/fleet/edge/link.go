package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// readBuffer is what each link reads into, in bytes.
const readBuffer = 4 << 10

// goodbye is the reason for which the hub ends a link, which it sends to the node.
type goodbye string

// Error is the reason.
func (g goodbye) Error() string { return string(g) }

// errSilent ends a link on which no message arrived for too long.
var errSilent = errors.New("nothing was heard of the node for too long")

// errLeft ends a link that the node ended in order.
var errLeft = errors.New("the node ended the session")

// reason returns why the link is over, nil while it is live. The edge's own context ends
// without a cause, when the edge stops.
func (l *Link) reason() error {
	cause := context.Cause(l.ctx)
	if errors.Is(cause, context.Canceled) {
		return goodbye("the hub is stopping")
	}
	return cause
}

// Link is a live session of one node that this replica holds, and the way to
// call it.
type Link struct {
	NodeClient

	edge   *Edge
	node   ca.Node
	remote string
	conn   *grpc.ClientConn
	closed chan struct{} // closed with the connection beneath conn
	// epoch and hello are set before the link is registered and do not change.
	epoch int64
	hello *nodev1.SessionResponse_Hello

	recorded ackQueue

	ctx context.Context // ends with the link; its cause says why
	end context.CancelCauseFunc
}

// newLink wraps a connection whose TLS handshake is done. The link ends when
// ctx does, or before by end.
func newLink(ctx context.Context, e *Edge, conn net.Conn, node ca.Node) *Link {
	l := &Link{edge: e, node: node, remote: conn.RemoteAddr().String(), closed: make(chan struct{})}
	l.ctx, l.end = context.WithCancelCause(ctx)
	l.conn = l.clientOn(conn)
	l.NodeClient = NodeClient{l.conn}
	return l
}

// NodeID returns whose link it is.
func (l *Link) NodeID() string { return l.node.ID }

// OrgID returns the organisation that the node's certificate names.
func (l *Link) OrgID() string { return l.node.OrgID }

// Epoch returns the session's number, which grows with each session of a node.
func (l *Link) Epoch() int64 { return l.epoch }

// Hello returns what the node reported about itself. It must not be modified.
func (l *Link) Hello() *nodev1.SessionResponse_Hello { return l.hello }

// Done is closed as soon as the link is no longer to be used.
func (l *Link) Done() <-chan struct{} { return l.ctx.Done() }

// Err returns why the link ended; nil while it lives.
func (l *Link) Err() error { return l.reason() }

func (l *Link) alive() bool { return l.ctx.Err() == nil }

// clientOn creates the gRPC client over one connection. It dials once: when the
// connection is gone, so is the client.
func (l *Link) clientOn(conn net.Conn) *grpc.ClientConn {
	var dialled atomic.Bool
	cc, err := grpc.NewClient("passthrough:///node",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if dialled.Swap(true) {
				return nil, errors.New("the link is gone")
			}
			return &watched{Conn: conn, closed: l.closed}, nil
		}),
		// TLS is done beneath.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(l.interceptUnary),
		grpc.WithStreamInterceptor(l.interceptStream),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: nodelink.PingAfter, Timeout: nodelink.PingTimeout,
		}),
		// A link is idle most of the time, and a hub has thousands: what is read
		// comes by TLS records, and large frames pass the buffer by.
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithMaxHeaderListSize(nodelink.MaxHeaderBytes),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(nodelink.MaxMessageBytes), grpc.MaxCallSendMsgSize(nodelink.MaxMessageBytes)),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		// Only a malformed target or option is an error, and both are constant.
		panic(fmt.Sprintf("edge: gRPC client: %v", err))
	}
	return cc
}

// watched is a connection that signals when it is closed.
type watched struct {
	net.Conn

	once   sync.Once
	closed chan struct{}
}

// Close closes the connection.
func (w *watched) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}
