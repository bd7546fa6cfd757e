package edge_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/link"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// directory returns one place for every node.
type directory struct {
	mu    sync.Mutex
	place *edge.ReplicaLocation
}

func (d *directory) set(p *edge.ReplicaLocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.place = p
}

func (d *directory) Locate(_ context.Context, nodeID string) (edge.ReplicaLocation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.place == nil {
		return edge.ReplicaLocation{}, fault.New(fault.NotFound, "nobody holds %s", nodeID)
	}
	return *d.place, nil
}

// pair is two replicas of one hub; nodes dial the first.
func pair(t *testing.T) (first, second *hub, where *directory) {
	t.Helper()
	where = &directory{}
	first = newHub(t)
	second = newHub(t, func(cfg *edge.Config) {
		cfg.Replica, cfg.CA, cfg.Nodes, cfg.Directory = "hub_2", first.ca, first.store, where
	})
	return first, second, where
}

func (h *hub) place(l *edge.Link) *edge.ReplicaLocation {
	return &edge.ReplicaLocation{Replica: "hub_1", Address: h.Addr().String(), Epoch: l.Epoch()}
}

// slowExecs are commands that end only when their caller goes away.
type slowExecs struct {
	nodev1.UnimplementedExecServiceServer

	left chan error
}

func (s *slowExecs) WaitExec(ctx context.Context, _ *nodev1.WaitExecRequest) (*nodev1.WaitExecResponse, error) {
	<-ctx.Done()
	s.left <- ctx.Err()
	return nil, ctx.Err()
}

func (s *slowExecs) ReadLog(_ *nodev1.ReadLogRequest, out nodev1.ExecService_ReadLogServer) error {
	if err := out.Send(&nodev1.ReadLogResponse{Offset: 1}); err != nil {
		return err
	}
	<-out.Context().Done()
	s.left <- out.Context().Err()
	return out.Context().Err()
}

// A call that lands on another replica is forwarded there.
func TestANodeIsCalledThroughTheReplicaThatHoldsIt(t *testing.T) {
	t.Parallel()
	first, second, where := pair(t)
	id := first.enrol()
	_, err := second.Node(id.NodeID())
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code)

	first.start(id, newExecs().register)
	where.set(first.place(first.connected(id)))
	way, err := second.Node(id.NodeID())
	require.NoError(t, err)

	// The correlation id travels over both hops; large messages too.
	ctx := logging.WithCorrelation(t.Context(), "corr-2")
	started, err := way.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: "step_1", JailId: "jail_1", Argv: []string{"true"}, Stdin: make([]byte, 1<<20),
	}})
	require.NoError(t, err)
	require.Equal(t, "corr-2", started.GetExec().GetJailId())
	require.Equal(t, int64(1<<20), started.GetExec().GetLogBytes())

	stream, err := way.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: "step_1", Offset: 5})
	require.NoError(t, err)
	for i := range int64(3) {
		part, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, 5+i, part.GetOffset())
		require.Equal(t, "corr-2", string(part.GetData()))
	}
	_, err = stream.Recv()
	require.NotErrorIs(t, err, io.EOF)
	require.Equal(t, fault.ToolFailed, fault.As(err).Code)

	// What the node says stays as it was.
	_, err = way.Exec().GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: "step_9"})
	require.True(t, fault.Is(err, fault.NotFound))
	require.Equal(t, "step_9", fault.As(err).ObjectID)
	_, err = way.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{ExecId: "step_1", JailId: "jail_1"}})
	require.True(t, fault.Is(err, fault.Invalid))
	require.ErrorContains(t, err, "spec.argv")

	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			res, err := way.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
				ExecId: fmt.Sprintf("many_%d", i), JailId: "j", Argv: []string{"true"}, Stdin: make([]byte, i),
			}})
			if err != nil || res.GetExec().GetLogBytes() != int64(i) {
				t.Error(i, res, err)
			}
		})
	}
	wg.Wait()
}

func TestAForwardedCallEndsWithItsCallerItsLinkAndItsReplica(t *testing.T) {
	t.Parallel()
	first, second, where := pair(t)
	id := first.enrol()
	slow := &slowExecs{left: make(chan error, 10)}
	first.start(id, func(r grpc.ServiceRegistrar) { nodev1.RegisterExecServiceServer(r, slow) })
	link := first.connected(id)
	where.set(first.place(link))
	way, err := second.Node(id.NodeID())
	require.NoError(t, err)
	wait := &nodev1.WaitExecRequest{ExecId: "step_1", Timeout: durationpb.New(patience)}

	// The caller goes away, by cancelling and by its deadline.
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := way.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: "step_1"})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	cancel()
	_, err = stream.Recv()
	require.True(t, fault.Is(err, fault.Canceled), "%v", err)
	require.Error(t, within(t, slow.left, "the stream to end on the node"))
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = way.Exec().WaitExec(ctx, wait)
	require.True(t, fault.Is(err, fault.Deadline), "%v", err)
	require.Error(t, within(t, slow.left, "the call to end on the node"))

	// Its link breaks: it is unknown here what the node did.
	stream, err = way.Exec().ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: "step_1"})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	first.tap.cut()
	_, err = stream.Recv()
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "%v", err)

	// The link that the way was to is over; its replica says so rather than use
	// another.
	first.disconnected(id)
	next := first.connected(id)
	_, err = way.Exec().WaitExec(t.Context(), wait)
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "%v", err)
	where.set(first.place(next))
	way, err = second.Node(id.NodeID())
	require.NoError(t, err)
	stream, err = way.Exec().ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: "step_1"})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)

	// Its replica goes away.
	first.Stop()
	_, err = stream.Recv()
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "%v", err)
	_, err = way.Exec().WaitExec(t.Context(), wait)
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "%v", err)
}

// What looks like a replica but is not reaches no node; neither does a call of
// anything but a node's services.
func TestOnlyReplicasAreForwarded(t *testing.T) {
	t.Parallel()
	first, second, where := pair(t)
	id := first.enrol()
	first.start(id, newExecs().register)
	link := first.connected(id)

	dial := func(config *tls.Config) error {
		config.MinVersion, config.RootCAs = tls.VersionTLS13, first.ca.Pool()
		config.ServerName, config.NextProtos = nodelink.ReplicaServerName("hub_1"), []string{nodelink.PeerALPN}
		conn, err := grpc.NewClient("passthrough:///"+first.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
			}))
		require.NoError(t, err)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "deckhand-node-id", id.NodeID(), "deckhand-node-epoch", "1")
		_, err = nodev1.NewExecServiceClient(conn).GetExec(ctx, &nodev1.GetExecRequest{ExecId: "step_9"})
		return err
	}
	require.Equal(t, codes.Unavailable, status.Code(dial(&tls.Config{})), "no certificate")
	own, err := id.TLS()
	require.NoError(t, err)
	require.Equal(t, codes.Unavailable, status.Code(dial(&tls.Config{
		Certificates: own.Certificates, GetClientCertificate: own.GetClientCertificate,
	})), "a node's certificate")
	replica, err := first.ca.ReplicaCertificate("hub_2")
	require.NoError(t, err)
	require.Equal(t, codes.NotFound, status.Code(dial(&tls.Config{Certificates: []tls.Certificate{*replica}})), "a replica's")

	// A replica's certificate is no node's.
	conn, err := tls.Dial("tcp", first.Addr().String(), &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: first.ca.Pool(), ServerName: nodelink.ServerName, NextProtos: []string{nodelink.ALPN},
		Certificates: []tls.Certificate{*replica},
	})
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	require.Error(t, err)

	// Another replica than the one that is meant, at its address.
	wrong := first.place(link)
	wrong.Replica = "hub_3"
	where.set(wrong)
	way, err := second.Node(id.NodeID())
	require.NoError(t, err)
	_, err = way.Exec().GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: "step_9"})
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "%v", err)
}

// An end that one replica has stored is acknowledged to the node over another replica's
// link; for a node without a link nothing is sent, and no caller waits.
func TestANodeIsToldOfARecordThroughTheReplicaThatHoldsIt(t *testing.T) {
	t.Parallel()
	first, second, where := pair(t)
	id := first.enrol()
	second.Recorded(id.NodeID(), "step_lost")
	told := make(chan []string, 10)
	first.startWith(id, func(cfg *link.Config) { cfg.OnRecorded = func(ids []string) { told <- ids } })
	where.set(first.place(first.connected(id)))
	second.Recorded(id.NodeID(), "step_1")
	require.Equal(t, []string{"step_1"}, within(t, told, "the node to be told"))
	second.Stop()
	second.Recorded(id.NodeID(), "step_2") // does nothing any more, and is harmless
	first.Recorded(id.NodeID(), "step_3")
	require.Equal(t, []string{"step_3"}, within(t, told, "the node to be told here"))
}

// A replica is reached by its name only, with both certificates.
func TestAReplicaIsChecked(t *testing.T) {
	t.Parallel()
	first, second, _ := pair(t)
	until, err := second.CheckReplica(t.Context(), "hub_1", first.Addr().String())
	require.NoError(t, err)
	require.False(t, until.IsZero())
	_, err = first.CheckReplica(t.Context(), "hub_1", first.Addr().String())
	require.NoError(t, err, "itself")

	_, err = second.CheckReplica(t.Context(), "hub_3", first.Addr().String())
	require.ErrorContains(t, err, "hub_3")
	stranger := newHub(t)
	_, err = stranger.CheckReplica(t.Context(), "hub_1", first.Addr().String())
	require.Error(t, err, "of another authority")
}
