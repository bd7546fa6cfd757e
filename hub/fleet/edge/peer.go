package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Replicas call each other's nodes as follows: a replica dials the edge of the one that
// has the node's link, with a certificate of the hub's own authority that names it, and
// calls the node's methods there; that edge forwards the messages unchanged, in both
// directions, without parsing them.

const (
	peerNode  = "deckhand-node-id"
	peerEpoch = "deckhand-node-epoch"
	// dropMethod ends a node's link; its one message is the reason.
	dropMethod = "/deckhand.peer/Drop"
	// recordedMethod forwards the acknowledgement that an end is stored; its one message
	// is the id.
	recordedMethod = "/deckhand.peer/Recorded"
	// peerDial bounds the dial of another replica.
	peerDial = 5 * time.Second
	// peerIdle is how long a connection to another replica is kept unused.
	peerIdle = 5 * time.Minute
)

// passed are the services whose calls may be forwarded: never the session,
// which is the link.
var passed = []string{
	nodev1.ExecService_ServiceDesc.ServiceName, nodev1.JailService_ServiceDesc.ServiceName,
	nodev1.FileService_ServiceDesc.ServiceName, nodev1.SnapshotService_ServiceDesc.ServiceName,
	nodev1.TelemetryService_ServiceDesc.ServiceName,
	nodev1.NodeService_ServiceDesc.ServiceName, nodev1.EgressService_ServiceDesc.ServiceName,
	nodev1.ImageService_ServiceDesc.ServiceName, nodev1.PackService_ServiceDesc.ServiceName,
}

// frame is a message that is passed on unread.
type frame struct{ data []byte }

// rawCodec passes frames on as they are.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

// Marshal returns a frame's bytes.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("cannot pass on a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

// Unmarshal keeps a message's bytes.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("cannot pass on to a %T", v)
	}
	f.data = data.Materialize()
	return nil
}

// Name is that of the codec whose bytes these are.
func (rawCodec) Name() string { return "proto" }

// peers are this replica's connections to the others, and the server for theirs
// to this one.
type peers struct {
	edge    *Edge
	server  *grpc.Server
	arrived chan net.Conn // handshake done
	stopped chan struct{}
	once    sync.Once

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by replica; nil when stopped
	// telling counts the requests in progress; it is added to under mu while conns is
	// set.
	telling sync.WaitGroup
}

func newPeers(e *Edge) *peers {
	p := &peers{edge: e, arrived: make(chan net.Conn), stopped: make(chan struct{}), conns: map[string]*grpc.ClientConn{}}
	p.server = grpc.NewServer(
		grpc.UnknownServiceHandler(p.forward),
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(nodelink.MaxMessageBytes), grpc.MaxSendMsgSize(nodelink.MaxMessageBytes),
		grpc.MaxHeaderListSize(nodelink.MaxHeaderBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: nodelink.MinPingInterval, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	return p
}

// Accept implements net.Listener for the server: connections come from the
// edge's own listener.
func (p *peers) Accept() (net.Conn, error) {
	select {
	case conn := <-p.arrived:
		return conn, nil
	case <-p.stopped:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *peers) Close() error {
	p.once.Do(func() { close(p.stopped) })
	return nil
}

// Addr implements net.Listener.
func (p *peers) Addr() net.Addr { return p.edge.Addr() }

// take gives the server a connection of another replica, until that ends.
func (p *peers) take(conn net.Conn) {
	w := &watched{Conn: conn, closed: make(chan struct{})}
	select {
	case p.arrived <- w:
		<-w.closed
	case <-p.stopped:
	}
}

// stop ends all calls from and to other replicas.
func (p *peers) stop() {
	p.server.Stop()
	p.mu.Lock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.telling.Wait()
}

// soon runs fn beside, unless the edge has stopped.
func (p *peers) soon(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns != nil {
		p.telling.Go(fn)
	}
}

// forward passes one call on to a node that is linked here.
func (p *peers) forward(_ any, in grpc.ServerStream) error {
	err := p.pass(in)
	p.edge.cfg.Forwarded("in", err)
	return fault.ToGRPC(err)
}

func (p *peers) pass(in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	if method == dropMethod || method == recordedMethod {
		return p.told(in, method)
	}
	if !slices.ContainsFunc(passed, func(service string) bool {
		return len(method) > len(service)+2 && method[1:len(service)+2] == service+"/"
	}) {
		return fault.New(fault.Denied, "%s is not passed on", method)
	}
	md, _ := metadata.FromIncomingContext(in.Context())
	link, err := p.linkOf(md)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(in.Context(), onward(md)))
	defer cancel()
	out, err := link.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return err
	}
	// It ends with this handler at the latest, whose end is that of the stream.
	go func() {
		if err := relayFrames(in, out.SendMsg); err != nil {
			cancel()
			return
		}
		_ = out.CloseSend()
	}()
	return relayFrames(out, in.SendMsg)
}

// told applies another replica's request to a link.
func (p *peers) told(in grpc.ServerStream, method string) error {
	md, _ := metadata.FromIncomingContext(in.Context())
	var what frame
	if err := in.RecvMsg(&what); err != nil {
		return err
	}
	link, err := p.linkOf(md)
	if err != nil {
		return err
	}
	if method == dropMethod {
		link.end(goodbye(what.data))
	} else {
		link.Recorded(string(what.data))
	}
	return in.SendMsg(&frame{})
}

// relayFrames passes messages on until they end.
func relayFrames(from interface{ RecvMsg(m any) error }, send func(m any) error) error {
	for {
		var f frame
		if err := from.RecvMsg(&f); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := send(&f); err != nil && !errors.Is(err, io.EOF) { // the reason for EOF comes from RecvMsg
			return err
		}
	}
}

// linkOf returns the link that a forwarded call asks for.
func (p *peers) linkOf(md metadata.MD) (*Link, error) {
	one := func(key string) string {
		if values := md.Get(key); len(values) == 1 {
			return values[0]
		}
		return ""
	}
	link, err := p.edge.Local(one(peerNode))
	if err != nil {
		return nil, err
	}
	if epoch := one(peerEpoch); epoch != strconv.FormatInt(link.epoch, 10) {
		return nil, unavailable(link.node.ID, "has a newer session than "+epoch)
	}
	return link, nil
}

// onward returns the part of a call's metadata that is meant for the node.
func onward(md metadata.MD) metadata.MD {
	out := metadata.MD{}
	for key, values := range md {
		switch key {
		case peerNode, peerEpoch, ":authority", "content-type", "user-agent", "grpc-accept-encoding":
		default:
			out[key] = values
		}
	}
	return out
}

// conn returns the connection to another replica, which is dialled by its first
// call.
func (p *peers) conn(place ReplicaLocation) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return nil, errors.New("the hub is stopping")
	}
	if conn := p.conns[place.Replica]; conn != nil {
		return conn, nil
	}
	// A replica that has ended never comes back under its name.
	for replica, conn := range p.conns {
		if state := conn.GetState(); state == connectivity.Idle || state == connectivity.TransientFailure {
			_ = conn.Close()
			delete(p.conns, replica)
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+place.Address,
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return p.dial(ctx, address, place.Replica)
		}),
		// TLS is done beneath.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: nodelink.PingAfter, Timeout: nodelink.PingTimeout}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(nodelink.MaxMessageBytes), grpc.MaxCallSendMsgSize(nodelink.MaxMessageBytes)),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(peerIdle),
	)
	if err != nil {
		return nil, fmt.Errorf("reach replica %s at %s: %w", place.Replica, place.Address, err)
	}
	p.conns[place.Replica] = conn
	return conn, nil
}

// dial connects to a replica's edge, which must be the one that is meant.
func (p *peers) dial(ctx context.Context, address, replica string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, peerDial)
	defer cancel()
	certificate, err := p.edge.cfg.CA.ReplicaCertificate(p.edge.cfg.Replica)
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{nodelink.PeerALPN}, RootCAs: p.edge.cfg.CA.Pool(),
		ServerName: nodelink.ReplicaServerName(replica), Certificates: []tls.Certificate{*certificate}, Time: p.edge.cfg.CA.Now,
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dial replica %s: %w", replica, err)
	}
	return conn, nil
}

// CheckReplica connects to the edge of a replica as the calls of its nodes do: both sides
// show their certificates. It returns until when the other's is valid.
func (e *Edge) CheckReplica(ctx context.Context, replica, address string) (validUntil time.Time, err error) {
	conn, err := e.peers.dial(ctx, address, replica)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	// The other side speaks first, once it has accepted the certificate of this one.
	if err := conn.SetReadDeadline(time.Now().Add(peerDial)); err != nil {
		return time.Time{}, fmt.Errorf("wait for replica %s: %w", replica, err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return time.Time{}, fmt.Errorf("replica %s does not accept this one: %w", replica, err)
	}
	certificates := conn.(*tls.Conn).ConnectionState().PeerCertificates //nolint:forcetypeassert // of tls.Dialer
	return certificates[0].NotAfter, nil
}

// remote is a node that another replica holds.
type remote struct {
	peers  *peers
	nodeID string
	place  ReplicaLocation
}

var _ grpc.ClientConnInterface = (*remote)(nil)

func (r *remote) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(outgoing(ctx), peerNode, r.nodeID, peerEpoch, strconv.FormatInt(r.place.Epoch, 10))
}

func (r *remote) explain(ctx context.Context, err error) error { return explain(ctx, r.nodeID, err) }

// tell makes the replica that has the node's link apply a request to it.
func (r *remote) tell(method, what string) {
	ctx, cancel := context.WithTimeout(context.Background(), locateTimeout)
	defer cancel()
	if err := r.Invoke(ctx, method, &frame{data: []byte(what)}, &frame{}, grpc.ForceCodecV2(rawCodec{})); err != nil {
		r.peers.edge.cfg.Log.Info("cannot reach the replica that has a node's link", "node_id", r.nodeID, "what", method, "error", err)
	}
}

// Invoke implements grpc.ClientConnInterface.
func (r *remote) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := r.peers.conn(r.place)
	if err != nil {
		return unavailable(r.nodeID, "cannot be reached through its replica").WithCause(err)
	}
	err = r.explain(ctx, conn.Invoke(r.outgoing(ctx), method, args, reply, opts...))
	r.peers.edge.cfg.Forwarded("out", err)
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (r *remote) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	conn, err := r.peers.conn(r.place)
	if err != nil {
		return nil, unavailable(r.nodeID, "cannot be reached through its replica").WithCause(err)
	}
	stream, err := conn.NewStream(r.outgoing(ctx), desc, method, opts...)
	err = r.explain(ctx, err)
	r.peers.edge.cfg.Forwarded("out", err)
	if err != nil {
		return nil, err
	}
	return &explained{ClientStream: stream, explain: func(err error) error { return r.explain(ctx, err) }}, nil
}
