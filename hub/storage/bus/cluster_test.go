package bus_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// startCluster starts three NATS servers with the documented configuration.
func startCluster(t *testing.T) []*server.Server {
	t.Helper()
	const members = 3
	var routes []*url.URL
	for range members {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		require.NoError(t, l.Close())
	}
	var out []*server.Server
	for i := range members {
		opts, err := server.ProcessConfigFile("../../../docs/nats.conf")
		require.NoError(t, err)
		opts.ServerName, opts.Host, opts.Port = fmt.Sprintf("n%d", i), "127.0.0.1", server.RANDOM_PORT
		opts.StoreDir, opts.NoSigs, opts.NoLog = t.TempDir(), true, true
		opts.Cluster = server.ClusterOpts{Name: "deckhand", Host: "127.0.0.1", Port: port(t, routes[i])}
		opts.Routes = routes
		s, err := server.NewServer(opts)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		out = append(out, s)
	}
	for _, s := range out {
		require.True(t, s.ReadyForConnections(patience))
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(out, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == members })
	}, patience, 20*time.Millisecond, "the members find one another")
	return out
}

func port(t *testing.T, u *url.URL) int {
	t.Helper()
	n, err := net.LookupPort("tcp", u.Port())
	require.NoError(t, err)
	return n
}

// Three addresses of one server are no cluster: the operator is told what to set.
func TestThreeAddressesOfOneServerAreNoCluster(t *testing.T) {
	t.Parallel()
	opts, err := server.ProcessConfigFile("../../../docs/nats.conf")
	require.NoError(t, err)
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true, true
	s, err := server.NewServer(opts)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patience))
	hub := clusterURLs("hub", "change-me-1", s, s, s)
	events := clusterURLs("hub-events", "change-me-2", s)
	_, err = bus.Connect(t.Context(), bus.Config{URL: hub, EventsURL: events})
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Contains(t, fault.As(err).Fix, "--nats-replicas 1")
	connect(t, bus.Config{URL: hub, EventsURL: events, Replicas: 1})
}

// clusterURLs returns the URLs of servers for one of their users.
func clusterURLs(user, password string, members ...*server.Server) config.Secret {
	var out []string
	for _, s := range members {
		out = append(out, "nats://"+user+":"+password+"@"+strings.TrimPrefix(s.ClientURL(), "nats://"))
	}
	return config.Secret(strings.Join(out, ","))
}

// In a cluster of three, any one may die with no wake-up lost, also the one that leads the
// stream.
func TestAMemberOfAClusterMayDie(t *testing.T) {
	t.Parallel()
	members := startCluster(t)
	b := connect(t, bus.Config{
		URL: clusterURLs("hub", "change-me-1", members...), EventsURL: clusterURLs("hub-events", "change-me-2", members...),
		WorkerURL: clusterURLs("worker", "change-me-3", members...),
	})
	// A hub that knows one member only does not take the others' copies away.
	connect(t, bus.Config{URL: clusterURLs("hub", "change-me-1", members[0]), EventsURL: clusterURLs("hub-events", "change-me-2", members[0])})
	const pool = "org_default-default"
	a := access(t, b, pool, "worker_1")
	require.Equal(t, 2, strings.Count(a.URL, ","), "a worker knows all members")
	conn, _ := worker(t, nil, a)
	require.NoError(t, b.Publish(t.Context(), pool, bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), a.Stream, a.Consumer)
	require.NoError(t, err)

	leads := slices.IndexFunc(members, func(s *server.Server) bool { return s.JetStreamIsStreamLeader("WORK", bus.Stream) })
	require.GreaterOrEqual(t, leads, 0)
	members[leads].Shutdown()
	members[leads].WaitForShutdown()

	next := func() (w string) {
		retry(t, func(ctx context.Context) error {
			msg, err := consumer.Next(jetstream.FetchMaxWait(time.Second))
			if err != nil {
				return err
			}
			w = string(msg.Data())
			return msg.DoubleAck(ctx)
		})
		return w
	}
	require.JSONEq(t, `{"task_id":"task_a","attempt":1}`, next())
	retry(t, func(ctx context.Context) error { return b.Publish(ctx, pool, bus.Wakeup{TaskID: "task_b", Attempt: 1}) })
	require.JSONEq(t, `{"task_id":"task_b","attempt":1}`, next())
}
