package link

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/identity"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The link as a whole is tested with its other end, in hub/fleet/edge.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	require.ErrorContains(t, err, "identity, services and hello")
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestTheGateIsDrainedWhenTheLastCallHasLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var g gate
		var inside []func()
		var opened bool
		var drained <-chan struct{}
		t.Repeat(map[string]func(*rapid.T){
			"unlock": func(*rapid.T) {
				opened = g.unlock()
				require.Equal(t, drained == nil, opened)
			},
			"enter": func(*rapid.T) {
				leave, err := g.enter("/a/B")
				if !opened {
					require.True(t, fault.Is(err, fault.Unavailable))
					return
				}
				require.NoError(t, err)
				inside = append(inside, leave)
			},
			"leave": func(t *rapid.T) {
				if len(inside) == 0 {
					t.Skip("nobody is inside")
				}
				inside[0]()
				inside = inside[1:]
			},
			"drain": func(*rapid.T) {
				drained, opened = g.drain(), false
			},
			"": func(*rapid.T) {
				if drained != nil {
					require.Equal(t, len(inside) == 0, isClosed(drained))
				}
			},
		})
	})
}

func TestAConnectionRemembersWhyItEnded(t *testing.T) {
	t.Parallel()
	alert := errors.New("remote error: tls: expired certificate")
	for name, c := range map[string]struct {
		read error
		want string
	}{
		"the peer closed it": {io.EOF, "the hub closed the connection"},
		"the peer refused":   {alert, alert.Error()},
		"we closed it":       {net.ErrClosed, "the hub closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			defer func() { _ = theirs.Close() }()
			conn := watch(failing{ours, c.read})
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, c.read)
			require.False(t, isClosed(conn.closed))
			require.NoError(t, conn.Close())
			require.NoError(t, conn.Close())
			require.True(t, isClosed(conn.closed))
			require.EqualError(t, conn.reason(), c.want)
		})
	}
}

// failing is a connection whose reads fail.
type failing struct {
	net.Conn

	err error
}

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestTheListenerGivesItsConnectionOnce(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	conn := watch(ours)
	l := listenOn(conn)
	first, err := l.Accept()
	require.NoError(t, err)
	require.Same(t, conn, first)
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	require.NoError(t, first.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
}

// heartbeats is a stream on which the hub says so many and is gone.
type heartbeats struct {
	nodev1.SessionService_SessionServer

	left int
}

func (h *heartbeats) Recv() (*nodev1.SessionRequest, error) {
	if h.left == 0 {
		return nil, io.EOF
	}
	h.left--
	return &nodev1.SessionRequest{Message: &nodev1.SessionRequest_Heartbeat{Heartbeat: &nodev1.Heartbeat{}}}, nil
}

// Contact with the hub is what was heard of it, and nothing else.
func TestEachMessageOfTheHubIsContact(t *testing.T) {
	t.Parallel()
	contacts := 0
	l, err := New(Config{
		Identity: &identity.Identity{}, Services: func(grpc.ServiceRegistrar) {},
		Hello:     func(context.Context) (*nodev1.SessionResponse_Hello, error) { return nil, io.EOF },
		OnContact: func() { contacts++ },
	})
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	s := newSession(l, watch(ours))
	defer s.watchdog.Stop()
	require.ErrorContains(t, s.receive(&heartbeats{left: 3}, time.Minute), "the hub ended the session")
	require.Equal(t, 3, contacts)
	require.NoError(t, ours.Close())
}
