package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var patience = waittest.Limit(10 * time.Second)

func startServer(t *testing.T, listen string) *bus.Server {
	t.Helper()
	server, err := bus.NewServer(bus.ServerConfig{
		Listen: listen, HubPassword: "hub-secret", EventsPassword: "events-secret", WorkerSecret: "worker-secret",
	})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(server.Stop)
	return server
}

func connect(t *testing.T, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return b
}

func access(t *testing.T, b *bus.Bus, pool, worker string) bus.Access {
	t.Helper()
	a, err := b.WorkerAccess(t.Context(), pool, worker)
	require.NoError(t, err)
	return a
}

// worker connects as a worker does. Errors that the server reports later come
// on the channel.
func worker(t *testing.T, server *bus.Server, a bus.Access) (*nats.Conn, <-chan error) {
	t.Helper()
	refused := make(chan error, 16)
	options := []nats.Option{
		nats.UserInfo(a.Username, a.Password), nats.CustomInboxPrefix(a.InboxPrefix),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }),
	}
	if a.URL == "" {
		options = append(options, nats.InProcessServer(server))
	}
	conn, err := nats.Connect(a.URL, options...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, refused
}

func pull(t *testing.T, conn *nats.Conn, a bus.Access) bus.Wakeup {
	t.Helper()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), a.Stream, a.Consumer)
	require.NoError(t, err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
	require.NoError(t, err)
	require.NoError(t, msg.DoubleAck(t.Context()))
	var w bus.Wakeup
	require.NoError(t, json.Unmarshal(msg.Data(), &w))
	return w
}

func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func TestWakeupGoesToOneWorkerOfItsPool(t *testing.T) {
	t.Parallel()
	server := startServer(t, "")
	b := connect(t, bus.Config{Server: server})
	fast, slow := access(t, b, "fast", "worker_1"), access(t, b, "", "worker_2")
	require.Empty(t, fast.URL, "the server is heard in this process only")
	require.NoError(t, b.Publish(t.Context(), "", bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	require.NoError(t, b.Publish(t.Context(), "fast", bus.Wakeup{TaskID: "task_b", Attempt: 2}))

	conn, _ := worker(t, server, fast)
	require.Equal(t, bus.Wakeup{TaskID: "task_b", Attempt: 2}, pull(t, conn, fast))
	conn, _ = worker(t, server, slow)
	require.Equal(t, bus.Wakeup{TaskID: "task_a", Attempt: 1}, pull(t, conn, slow))
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), slow.Stream, slow.Consumer)
	require.NoError(t, err)
	require.Zero(t, consumer.CachedInfo().NumPending, "acknowledged once, gone for all")
}

// A worker's credentials reach its own pool's wake-ups and nothing else.
func TestWorkerCanDoNothingButPullAndAcknowledge(t *testing.T) {
	t.Parallel()
	server := startServer(t, "127.0.0.1:0")
	b := connect(t, bus.Config{Server: server})
	mine, other := access(t, b, "mine", "worker_1"), access(t, b, "other", "worker_2")
	require.NotEmpty(t, mine.URL)
	conn, refused := worker(t, server, mine)

	for _, subject := range []string{
		"wake.mine", "wake.other", "events.org_1.task_1", "thinking.org_1.task_1", "_INBOX.worker.worker_2.x",
		"$JS.API.INFO", "$JS.API.STREAM.INFO.WAKEUPS", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.X",
		"$JS.API.STREAM.UPDATE.WAKEUPS", "$JS.API.STREAM.DELETE.WAKEUPS", "$JS.API.STREAM.PURGE.WAKEUPS",
		"$JS.API.STREAM.MSG.GET.WAKEUPS", "$JS.API.STREAM.MSG.DELETE.WAKEUPS", "$JS.API.DIRECT.GET.WAKEUPS",
		"$JS.API.CONSUMER.CREATE.WAKEUPS", "$JS.API.CONSUMER.CREATE.WAKEUPS.mine.wake.mine",
		"$JS.API.CONSUMER.DURABLE.CREATE.WAKEUPS.mine", "$JS.API.CONSUMER.DELETE.WAKEUPS.pool-mine",
		"$JS.API.CONSUMER.LIST.WAKEUPS", "$JS.API.CONSUMER.NAMES.WAKEUPS", "$JS.API.CONSUMER.PAUSE.WAKEUPS.pool-mine",
		"$JS.API.CONSUMER.INFO.WAKEUPS.pool-other", "$JS.API.CONSUMER.MSG.NEXT.WAKEUPS.pool-other",
		"$JS.ACK.WAKEUPS.pool-other.1.1.1.1.0", "$SYS.REQ.SERVER.PING", "anything",
	} {
		require.NoError(t, conn.Publish(subject, nil))
		require.ErrorContains(t, receive(t, refused), "Permissions Violation for Publish to \""+subject+"\"")
	}
	for _, subject := range []string{
		">", "*", "wake.>", "wake.mine", "events.>", "thinking.>", "$JS.>", "$JS.ACK.>", "$SYS.>",
		"_INBOX.>", "_INBOX.worker.>", "_INBOX.worker.*.x", "_INBOX.worker.worker_2.>",
	} {
		_, err := conn.SubscribeSync(subject)
		require.NoError(t, err)
		require.ErrorContains(t, receive(t, refused), "Permissions Violation for Subscription to \""+subject+"\"")
	}
	require.NoError(t, b.Publish(t.Context(), "mine", bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	require.Equal(t, "task_a", pull(t, conn, mine).TaskID, "its own pool still serves it")

	for name, change := range map[string]func(*bus.Access){
		"another pool":       func(a *bus.Access) { a.Username = other.Username },
		"no password":        func(a *bus.Access) { a.Password = "" },
		"the hub":            func(a *bus.Access) { a.Username = "hub" },
		"a wildcard as pool": func(a *bus.Access) { a.Username = "worker.>.worker_1" },
		"nobody":             func(a *bus.Access) { a.Username, a.Password = "", "" },
	} {
		t.Run("its password is not that of "+name, func(t *testing.T) {
			t.Parallel()
			a := mine
			change(&a)
			_, err := nats.Connect(a.URL, nats.UserInfo(a.Username, a.Password))
			require.ErrorIs(t, err, nats.ErrAuthorization)
		})
	}
}

// JetStream sends the response to a pull to any subject that the pull names, with its own
// rights, and an empty response to "$JS.API.STREAM.DELETE.…" would be a request.
func TestWorkerCannotGiveOrdersThroughTheAnswersToItsPulls(t *testing.T) {
	t.Parallel()
	server := startServer(t, "")
	b := connect(t, bus.Config{Server: server})
	mine, other := access(t, b, "mine", "worker_1"), access(t, b, "other", "worker_2")
	conn, _ := worker(t, server, mine)
	next := "$JS.API.CONSUMER.MSG.NEXT." + mine.Stream + "." + mine.Consumer
	for _, order := range []string{
		"$JS.API.STREAM.PURGE.WAKEUPS", "$JS.API.STREAM.DELETE.WAKEUPS", "$JS.API.CONSUMER.DELETE.WAKEUPS.pool-other",
		"$JS.API.CONSUMER.MSG.NEXT.WAKEUPS.pool-other", "wake.other", "wake.mine",
	} {
		require.NoError(t, conn.PublishRequest(next, order, []byte(`{"batch":1,"no_wait":true}`)))
	}
	// This pull's answer comes after those of the pulls above.
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), mine.Stream, mine.Consumer)
	require.NoError(t, err)
	batch, err := consumer.FetchNoWait(1)
	require.NoError(t, err)
	require.Empty(t, batch.Messages())
	require.NoError(t, batch.Error())

	require.NoError(t, b.Publish(t.Context(), "other", bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	conn, _ = worker(t, server, other)
	require.Equal(t, "task_a", pull(t, conn, other).TaskID)
	conn, _ = worker(t, server, mine)
	require.NoError(t, b.Publish(t.Context(), "mine", bus.Wakeup{TaskID: "task_b", Attempt: 1}))
	require.Equal(t, "task_b", pull(t, conn, mine).TaskID)
}

func TestEventsReachTheirOrganisationOnly(t *testing.T) {
	t.Parallel()
	server := startServer(t, "")
	first, second := connect(t, bus.Config{Server: server}), connect(t, bus.Config{Server: server})
	heard := make(chan string, 4)
	stop, err := second.SubscribeEvents("org_1", func(task string) { heard <- task })
	require.NoError(t, err)
	require.NoError(t, first.PublishEvent("org_2", "task_x"))
	require.NoError(t, first.PublishEvent("org_1", "task_y"))
	require.Equal(t, "task_y", receive(t, heard))
	stop()
	require.NoError(t, first.PublishEvent("org_1", "task_z"))
	require.Empty(t, heard)
}

func TestThinkingArrivesInOrderAndAsItIs(t *testing.T) {
	t.Parallel()
	server := startServer(t, "")
	first, second := connect(t, bus.Config{Server: server}), connect(t, bus.Config{Server: server})
	heard := make(chan []byte, 200)
	stop, err := second.SubscribeThinking("org_1", "task_1", func(piece []byte) { heard <- piece })
	require.NoError(t, err)
	defer stop()
	require.NoError(t, first.PublishThinking("org_1", "task_2", []byte("not mine")))
	for i := range 100 {
		require.NoError(t, first.PublishThinking("org_1", "task_1", fmt.Appendf(nil, "\x00\xff%d", i)))
	}
	for i := range 100 {
		require.Equal(t, fmt.Appendf(nil, "\x00\xff%d", i), receive(t, heard))
	}
}

func TestNamesThatReachBeyondTheirSubjectAreRefused(t *testing.T) {
	t.Parallel()
	b := connect(t, bus.Config{Server: startServer(t, "")})
	for _, name := range []string{"", ">", "*", "a.b", "a b", "a\r\nPUB x 0\r\n", strings.Repeat("a", 129)} {
		require.True(t, fault.Is(b.PublishEvent("org_1", name), fault.Invalid), "%q", name)
		require.True(t, fault.Is(b.PublishThinking(name, "task_1", nil), fault.Invalid), "%q", name)
		_, err := b.SubscribeEvents(name, func(string) {})
		require.True(t, fault.Is(err, fault.Invalid), "%q", name)
		_, err = b.WorkerAccess(t.Context(), "", name)
		require.True(t, fault.Is(err, fault.Invalid), "%q", name)
		if name != "" {
			require.True(t, fault.Is(b.Publish(t.Context(), name, bus.Wakeup{}), fault.Invalid), "%q", name)
		}
	}
}

func TestStreamIsMadeAgainWhenTheServerForgotIt(t *testing.T) {
	t.Parallel()
	server := startServer(t, "")
	b := connect(t, bus.Config{Server: server})
	a := access(t, b, "fast", "worker_1")
	heard := make(chan string, 1)
	stop, err := b.SubscribeEvents("org_1", func(task string) { heard <- task })
	require.NoError(t, err)
	defer stop()

	server.Stop()
	require.NoError(t, server.Start(t.Context()))

	// The first calls may still go to the connection that is gone.
	retry(t, func(ctx context.Context) error {
		return b.Publish(ctx, "fast", bus.Wakeup{TaskID: "task_a", Attempt: 1})
	})
	// A worker that had its credentials before needs nothing new.
	conn, _ := worker(t, server, a)
	require.Equal(t, "task_a", pull(t, conn, a).TaskID)
	other := connect(t, bus.Config{Server: server})
	// The events connection comes back in its own time.
	retry(t, func(ctx context.Context) error {
		if err := other.PublishEvent("org_1", "task_b"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		select {
		case <-heard:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// retry calls fn until it succeeds, with half a second for each call.
func retry(t *testing.T, fn func(context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := fn(ctx)
		cancel()
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "still failing: %v", err)
	}
}

func TestServerOfOnesOwnIsUsedByItsURLs(t *testing.T) {
	t.Parallel()
	server := startServer(t, "127.0.0.1:0")
	host := strings.TrimPrefix(server.URL(), "nats://")
	secret := func(user, password string) config.Secret {
		return config.Secret("nats://" + user + ":" + password + "@" + host)
	}
	cfg := bus.Config{URL: secret("hub", "hub-secret"), EventsURL: secret("hub-events", "events-secret")}
	b := connect(t, cfg)
	a := access(t, b, "", "worker_1")
	require.Equal(t, server.URL(), a.URL)
	require.Empty(t, a.Username, "the hub's own user is never handed to a worker")
	require.Empty(t, a.Password)

	cfg.WorkerURL = secret("shared-worker", "shared-secret")
	a = access(t, connect(t, cfg), "", "worker_1")
	require.Equal(t, bus.Access{
		URL: server.URL(), Username: "shared-worker", Password: "shared-secret",
		InboxPrefix: "_INBOX.worker.worker_1", Stream: "WAKEUPS", Consumer: "pool-default",
	}, a)
}

func TestServerWithTheConfigurationThatWeGiveOutServesHubAndWorkers(t *testing.T) {
	t.Parallel()
	opts, err := server.ProcessConfigFile("../../../docs/nats.conf")
	require.NoError(t, err)
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true, true
	nats, err := server.NewServer(opts)
	require.NoError(t, err)
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	require.True(t, nats.ReadyForConnections(patience))
	host := strings.TrimPrefix(nats.ClientURL(), "nats://")
	b := connect(t, bus.Config{
		URL:       config.Secret("nats://hub:change-me-1@" + host),
		EventsURL: config.Secret("nats://hub-events:change-me-2@" + host),
		WorkerURL: config.Secret("nats://worker:change-me-3@" + host),
	})
	const pool = "org_default-default"
	a := access(t, b, pool, "worker_1")
	conn, refused := worker(t, nil, a)
	require.NoError(t, b.Publish(t.Context(), pool, bus.Wakeup{TaskID: "task_a", Attempt: 1}))
	require.Equal(t, "task_a", pull(t, conn, a).TaskID)
	require.NoError(t, conn.Publish("wake."+pool, nil))
	require.ErrorContains(t, receive(t, refused), "Permissions Violation")
}

func TestUnreachableServerIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	_, err := bus.Connect(t.Context(), bus.Config{URL: "nats://hub:hunter2@127.0.0.1:1"})
	require.True(t, fault.Is(err, fault.Unavailable))
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.ErrorContains(t, err, "--nats-url")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = bus.Connect(t.Context(), bus.Config{})
	require.ErrorContains(t, err, "nats-url")
}

func TestEmbeddedServerNeedsPasswordsAndAFreePort(t *testing.T) {
	t.Parallel()
	_, err := bus.NewServer(bus.ServerConfig{HubPassword: "x"})
	require.ErrorContains(t, err, "password")
	first := startServer(t, "127.0.0.1:0")
	second, err := bus.NewServer(bus.ServerConfig{
		Listen:      strings.TrimPrefix(first.URL(), "nats://"),
		HubPassword: "a", EventsPassword: "b", WorkerSecret: "c",
	})
	require.NoError(t, err)
	require.ErrorContains(t, second.Start(t.Context()), "address already in use")
}
