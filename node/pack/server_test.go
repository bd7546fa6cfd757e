package pack_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/pack"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The hub has a node fetch, import, list and prune packs; an archive that is not the one of the digest
// is refused, and so is one that the node's own file of pins does not say. Nobody reads a password in a
// URL.
func TestTheHubInstallsPacks(t *testing.T) {
	t.Parallel()
	first, second := archive(t, file("tool", "first")), archive(t, file("tool", "second"))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(first) }))
	defer site.Close()
	dir, pins := t.TempDir(), filepath.Join(t.TempDir(), "packs.yaml")
	server, listener := grpc.NewServer(), bufconn.Listen(1<<20)
	nodev1.RegisterPackServiceServer(server, pack.NewServer(pack.ServerConfig{DataDir: dir, Pins: pins, Client: site.Client(), Log: hclog.NewNullLogger()}))
	go func() { _ = server.Serve(listener) }() // returns when it is stopped
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	client := nodev1.NewPackServiceClient(conn)
	send := func(pin *nodev1.Pin, data []byte) (*nodev1.Pack, error) {
		stream, err := client.ImportPack(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&nodev1.ImportPackRequest{Pin: pin}))
		for len(data) > 0 {
			n := min(len(data), 1000)
			_ = stream.Send(&nodev1.ImportPackRequest{Data: data[:n]}) // if it is refused, the response says so
			data = data[n:]
		}
		res, err := stream.CloseAndRecv()
		return res.GetPack(), fault.FromGRPC(err)
	}

	secret := strings.Replace(site.URL, "http://", "http://ci:passw0rd@", 1) + "/tool.tar?sig=passw0rd#passw0rd"
	fetched, err := client.FetchPack(t.Context(), &nodev1.FetchPackRequest{Pin: &nodev1.Pin{Name: "tool", Sha256: pin(first).SHA256, Url: secret}})
	require.NoError(t, err)
	require.True(t, fetched.GetPack().GetCurrent())
	require.Equal(t, site.URL+"/tool.tar", fetched.GetPack().GetSource())
	_, err = client.FetchPack(t.Context(), &nodev1.FetchPackRequest{Pin: &nodev1.Pin{Name: "tool", Sha256: pin(second).SHA256, Url: "http://ci:passw0rd@127.0.0.1:1/?sig=passw0rd"}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Unavailable), "%v", err)
	require.NotContains(t, err.Error(), "passw0rd")
	_, err = client.FetchPack(t.Context(), &nodev1.FetchPackRequest{Pin: &nodev1.Pin{Name: "tool", Sha256: pin(second).SHA256, Url: site.URL}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Denied), "%v", err)
	require.NoError(t, os.WriteFile(pins, []byte("tool: {sha256: "+pin(second).SHA256+"}\n"), 0o600))
	_, err = client.FetchPack(t.Context(), &nodev1.FetchPackRequest{Pin: &nodev1.Pin{Name: "tool", Sha256: pin(first).SHA256, Url: site.URL}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Denied), "the node pins another one: %v", err)
	_, err = client.FetchPack(t.Context(), &nodev1.FetchPackRequest{Pin: &nodev1.Pin{Name: "tool"}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Precondition), "the pin of the node has no url: %v", err)
	for _, name := range []string{"../tool", "Tool", ""} {
		_, err = client.FetchPack(t.Context(), &nodev1.FetchPackRequest{Pin: &nodev1.Pin{Name: name, Sha256: pin(first).SHA256, Url: site.URL}})
		require.True(t, fault.Is(fault.FromGRPC(err), fault.Invalid), "%q: %v", name, err)
	}

	_, err = send(&nodev1.Pin{Name: "tool"}, first)
	require.True(t, fault.Is(err, fault.Denied), "it is another one than the node's own pin says: %v", err)
	imported, err := send(&nodev1.Pin{Name: "tool"}, second)
	require.NoError(t, err)
	require.Equal(t, pin(second).SHA256, imported.GetSha256())

	list, err := client.ListPacks(t.Context(), &nodev1.ListPacksRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetPacks(), 2)
	require.Equal(t, []bool{true, false}, []bool{list.GetPacks()[0].GetCurrent(), list.GetPacks()[1].GetCurrent()})
	require.Equal(t, pin(second).SHA256, list.GetPacks()[0].GetSha256())
	pruned, err := client.PrunePacks(t.Context(), &nodev1.PrunePacksRequest{})
	require.NoError(t, err)
	require.Len(t, pruned.GetDeleted(), 1)
	require.Equal(t, pin(first).SHA256, pruned.GetDeleted()[0].GetSha256())
	_, err = client.PrunePacks(t.Context(), &nodev1.PrunePacksRequest{Names: []string{"none"}})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.NotFound), "%v", err)
}
