// The proxy confines itself to what a binary without C needs, and the race detector
// brings C: it could not start a thread.

//go:build !race

package process_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A tunnel of the hub ends at once when the hub gives it up, which it does when a credential is
// revoked or a task ends, and when the jail is cut off or left; also if the server neither says
// anything nor ends the connection.
func TestTheHubsTunnelsEndAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := newHub(t, r.proxy)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	silent := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			silent <- c
		}
	}()
	port := uint32(netip.MustParseAddrPort(l.Addr().String()).Port())
	r.tunnelEnds(t, h, port, silent, "given up by the hub", func(cancel func()) { cancel() })
	r.tunnelEnds(t, h, port, silent, "cut", func(func()) { r.proxy.Cut("jail_test", "everything is being killed") })
	r.proxy.Resume("jail_test")
	r.tunnelEnds(t, h, port, silent, "left", func(func()) { r.proxy.Leave("jail_test") })
}

// tunnelEnds opens a tunnel to a server that says nothing, has it end, and verifies that the
// server and the hub see that.
func (r *rig) tunnelEnds(t *testing.T, h *hub, port uint32, silent <-chan net.Conn, name string, end func(cancel func())) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := h.node.Tunnel(ctx)
	require.NoError(t, err, name)
	require.NoError(t, stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Open_{Open: &nodev1.TunnelRequest_Open{
		JailId: "jail_test", Host: "127.0.0.1", Port: port, Private: true,
	}}}))
	_, err = stream.Recv()
	require.NoError(t, err, name)
	require.NoError(t, stream.Send(&nodev1.TunnelRequest{Request: &nodev1.TunnelRequest_Data{Data: []byte("hello")}}))
	server := <-silent
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(waittest.Limit(20 * time.Second)))
	_, err = io.ReadFull(server, make([]byte, len("hello")))
	require.NoError(t, err, name)

	began := time.Now()
	end(cancel)
	_, err = io.Copy(io.Discard, server)
	require.NoError(t, err, name)
	// More than an end of sending: the connection takes nothing any more.
	waittest.Until(t, 10*time.Second, name+": the connection to be closed", func() bool {
		_, err := server.Write([]byte("x"))
		return err != nil
	})
	assert.Less(t, time.Since(began), waittest.Limit(2*time.Second), name)
	_, err = stream.Recv()
	require.Error(t, err, name)
}
