package nodetest

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Link has clients of a node's services, as the hub has them, to jails and images that are
// real ones in this process. The other services fail as on a node that does not know them.
type Link struct{ conn *grpc.ClientConn }

// NewLink returns a link to the jails of a manager and to its images. It ends with the test.
func NewLink(tb testing.TB, m *jail.Manager) Link {
	tb.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	nodev1.RegisterJailServiceServer(server, jail.NewServer(m))
	nodev1.RegisterImageServiceServer(server, image.NewServer(m.Images()))
	go func() { _ = server.Serve(listener) }() // returns when it is stopped
	tb.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return Link{conn}
}

// Exec returns a client of that service.
func (l Link) Exec() nodev1.ExecServiceClient { return nodev1.NewExecServiceClient(l.conn) }

// Jails returns a client of that service.
func (l Link) Jails() nodev1.JailServiceClient { return nodev1.NewJailServiceClient(l.conn) }

// Files returns a client of that service.
func (l Link) Files() nodev1.FileServiceClient { return nodev1.NewFileServiceClient(l.conn) }

// Snapshots returns a client of that service.
func (l Link) Snapshots() nodev1.SnapshotServiceClient {
	return nodev1.NewSnapshotServiceClient(l.conn)
}

// Egress returns a client of that service.
func (l Link) Egress() nodev1.EgressServiceClient { return nodev1.NewEgressServiceClient(l.conn) }

// Images returns a client of that service.
func (l Link) Images() nodev1.ImageServiceClient { return nodev1.NewImageServiceClient(l.conn) }

// Packs returns a client of that service.
func (l Link) Packs() nodev1.PackServiceClient { return nodev1.NewPackServiceClient(l.conn) }

// Node returns a client of that service.
func (l Link) Node() nodev1.NodeServiceClient { return nodev1.NewNodeServiceClient(l.conn) }

// Telemetry returns a client of that service.
func (l Link) Telemetry() nodev1.TelemetryServiceClient {
	return nodev1.NewTelemetryServiceClient(l.conn)
}
