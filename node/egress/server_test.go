package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/egress"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// hub is the other end of the node's link.
func (r *rig) hub() nodev1.EgressServiceClient {
	r.t.Helper()
	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	nodev1.RegisterEgressServiceServer(server, egress.NewServer(r.proxy))
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(server.Stop)
	cc, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = cc.Close() })
	return nodev1.NewEgressServiceClient(cc)
}

// open opens a tunnel and returns how that went.
func open(t *testing.T, hub nodev1.EgressServiceClient, jail, host, port string, private bool) (nodev1.EgressService_TunnelClient, error) {
	t.Helper()
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	stream, err := hub.Tunnel(t.Context())
	require.NoError(t, err)
	if err := stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Open_{Open: &nodev1.TunnelRequest_Open{
		JailId: jail, Host: host, Port: uint32(number), Private: private,
	}}}); !errors.Is(err, io.EOF) {
		require.NoError(t, err)
	}
	_, err = stream.Recv()
	return stream, fault.FromGRPC(err)
}

// The hub's own requests leave by the node, wherever it says, and by no rule
// of the jail's; addresses of private networks are reached only where they were
// named.
func TestTheHubHasAWayOutOfItsOwn(t *testing.T) {
	r := newRig(t, egress.Config{}, &nodev1.Egress{}) // the jail itself may reach nothing
	o := newOrigin(t, false, hello)
	hub := r.hub()
	r.names.set("search.example.com", "127.0.0.1")

	stream, err := open(t, hub, jailID, "127.0.0.1", o.port, true)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Data{
		Data: []byte("GET /search?q=x HTTP/1.1\r\nHost: search.example.com\r\nConnection: close\r\n\r\n"),
	}}))
	var answer []byte
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		answer = append(answer, res.GetData()...)
	}
	require.Contains(t, string(answer), "GET search.example.com/search?q=x")
	// A name that stands for the machine itself is refused, named or not.
	_, err = open(t, hub, jailID, "search.example.com", o.port, true)
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	for _, host := range []string{"127.0.0.1", "search.example.com", "169.254.169.254", "::1"} {
		_, err := open(t, hub, jailID, host, o.port, false)
		require.True(t, fault.Is(err, fault.Denied), "%s: %v", host, err)
		require.Equal(t, fault.EgressDenied, fault.As(err).Code)
	}
	_, err = open(t, hub, "jail_other", "127.0.0.1", o.port, true)
	require.True(t, fault.Is(err, fault.Precondition), "%v", err)
	_, err = open(t, hub, jailID, "nowhere.example.com", o.port, true)
	require.ErrorContains(t, err, "cannot be reached from the node")
	_, err = open(t, hub, jailID, "a b", o.port, true)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	stream, err = hub.Tunnel(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Data{Data: []byte("x")}}))
	_, err = stream.Recv()
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Invalid), "%v", err)
}

// What cuts a jail off cuts the hub's tunnels on its behalf.
func TestACutEndsTheHubsTunnels(t *testing.T) {
	r := newRig(t, egress.Config{}, &nodev1.Egress{})
	asked := make(chan struct{})
	o := newOrigin(t, false, func(_ http.ResponseWriter, q *http.Request) {
		close(asked)
		<-q.Context().Done()
	})
	hub := r.hub()
	stream, err := open(t, hub, jailID, "127.0.0.1", o.port, true)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Data{Data: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")}}))
	<-asked
	r.proxy.Cut(jailID, "everything in this jail is being killed")
	_, err = stream.Recv()
	require.ErrorContains(t, err, "is being killed")
	_, err = open(t, hub, jailID, "127.0.0.1", o.port, true)
	require.ErrorContains(t, err, "is being killed")
	r.proxy.Resume(jailID)
	_, err = open(t, hub, jailID, "127.0.0.1", o.port, true)
	require.NoError(t, err)
}
