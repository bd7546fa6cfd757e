package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// Config selects the NATS server: the embedded one, or one by URL.
type Config struct {
	// Server is the embedded server; the URLs are ignored when it is set.
	Server *Server
	// URL names a NATS server with JetStream, with the user and password of
	// the hub: nats://hub:secret@nats.example:4222. Several, for the members
	// of a cluster, are separated by commas.
	URL config.Secret `koanf:"nats-url"`
	// EventsURL is the same server with the user of the events account; URL
	// when empty.
	EventsURL config.Secret `koanf:"nats-events-url"`
	// WorkerURL is the URL that workers get: the same server with the user of workers. If
	// empty, it is URL without its user, never with it.
	WorkerURL config.Secret `koanf:"nats-worker-url"`
	// Authority vouches for the servers of tls:// URLs, as PEM; empty for those
	// that the system trusts.
	Authority string
	// Replicas is how many members of a NATS cluster keep the wake-ups; 0 for 3 if URL
	// names three servers or more, and otherwise for what there is, and 1 at first. With 3, one
	// member may die.
	Replicas int
	// Log may be nil.
	Log hclog.Logger
}

// Wakeup reports that an attempt of a task may be claimed. As JSON it is
// {"task_id":"…","attempt":1}.
type Wakeup struct {
	TaskID  string `json:"task_id"`
	Attempt int32  `json:"attempt"`
}

const (
	// maxAge is when unclaimed wake-ups expire; the sweeper publishes again for tasks
	// that still wait.
	maxAge = 15 * time.Minute
	// clustered is how many members keep the wake-ups where there are so many.
	clustered = 3
	// pingInterval is how often a connection is tried. It is given up after two that had no
	// response, so that a server that is cut off is left for another one.
	pingInterval = 5 * time.Second
	// ackWait is how long a worker has to claim what it pulled.
	ackWait = 15 * time.Second
)

// Bus has the hub's two connections. It is a lifecycle.Service: Start connects and
// creates the stream, and creates again what was lost while it was disconnected.
type Bus struct {
	lifecycle.Runner

	cfg         Config
	reconnected chan struct{} // holds at most one signal
	work        *nats.Conn
	events      *nats.Conn
	js          jetstream.JetStream

	mu    sync.Mutex
	pools map[string]bool // whose consumers are known to have been made
}

// New prepares a Bus.
func New(cfg Config) (*Bus, error) {
	if cfg.Server == nil && cfg.URL == "" {
		return nil, errors.New("nats-url: name a NATS server, for example nats://hub:secret@nats.example:4222")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.EventsURL == "" {
		cfg.EventsURL = cfg.URL
	}
	return &Bus{cfg: cfg, reconnected: make(chan struct{}, 1), pools: map[string]bool{DefaultPool: true}}, nil
}

// Connect is New and Start.
func Connect(ctx context.Context, cfg Config) (*Bus, error) {
	b, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := b.Start(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Start implements lifecycle.Service.
func (b *Bus) Start(ctx context.Context) error {
	if err := b.connect(ctx); err != nil {
		b.disconnect()
		return err
	}
	return b.Run(ctx, func(ctx context.Context) error {
		defer b.disconnect()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-b.reconnected:
				b.restore(ctx)
			}
		}
	})
}

func (b *Bus) connect(ctx context.Context) (err error) {
	if b.work, err = b.dial(b.cfg.URL, hubUser, func(s ServerConfig) config.Secret { return s.HubPassword }); err != nil {
		return err
	}
	if b.events, err = b.dial(b.cfg.EventsURL, eventsUser, func(s ServerConfig) config.Secret { return s.EventsPassword }); err != nil {
		return err
	}
	if b.js, err = jetstream.New(b.work); err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	return b.ensure(ctx)
}

// Connected returns an error while NATS cannot be reached.
func (b *Bus) Connected() error {
	for what, conn := range map[string]*nats.Conn{"wake-ups": b.work, "events": b.events} {
		if conn == nil || !conn.IsConnected() {
			return fmt.Errorf("NATS cannot be reached for %s", what)
		}
	}
	return nil
}

func (b *Bus) disconnect() {
	for _, conn := range []*nats.Conn{b.work, b.events} {
		if conn != nil {
			conn.Close()
		}
	}
}

func (b *Bus) dial(addr config.Secret, user string, password func(ServerConfig) config.Secret) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("deckhand " + user),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.PingInterval(pingInterval),
		nats.ReconnectHandler(func(*nats.Conn) {
			select {
			case b.reconnected <- struct{}{}:
			default: // one signal is enough
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.cfg.Log.Warn("lost the connection to NATS", "user", user, "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			// A slow subscriber loses hints and reads the database later.
			b.cfg.Log.Debug("nats", "user", user, "error", err)
		}),
	}
	servers := addr.Reveal()
	if b.cfg.Server != nil {
		servers = ""
		options = append(options, nats.InProcessServer(b.cfg.Server),
			nats.UserInfo(user, password(b.cfg.Server.cfg).Reveal()))
	} else if overTLS(servers) {
		config, err := trusting(b.cfg.Authority)
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(config))
	}
	conn, err := nats.Connect(servers, options...)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot reach NATS at %s: %v", where(servers), err).
			WithFix("check --nats-url and that the server runs").WithCause(err)
	}
	return conn, nil
}

// where returns the URLs without their passwords.
func where(servers string) string {
	if servers == "" {
		return "the embedded server"
	}
	var out []string
	for server := range strings.SplitSeq(servers, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil {
			out = append(out, "a malformed URL")
			continue
		}
		out = append(out, u.Redacted())
	}
	return strings.Join(out, ",")
}

// restore makes again what the server may have forgotten. It tries until it
// succeeds or the bus stops.
func (b *Bus) restore(ctx context.Context) {
	policy := backoff.Policy{Base: 250 * time.Millisecond, Max: 5 * time.Second}
	for failures := 1; ; failures++ {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := b.ensure(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		b.cfg.Log.Warn("cannot create the stream of wake-ups again", "error", err)
		if backoff.Wait(ctx, policy.Delay(failures)) != nil {
			return
		}
	}
}

// replicas returns how many members of a cluster are to keep the wake-ups. Without a setting, a hub
// never lowers the number: hubs whose URLs name different numbers of servers would change it in turn.
func (b *Bus) replicas(ctx context.Context) (int, error) {
	if b.cfg.Replicas > 0 {
		return b.cfg.Replicas, nil
	}
	want := 1
	if b.cfg.Server == nil && strings.Count(b.cfg.URL.Reveal(), ",")+1 >= clustered {
		want = clustered
	}
	stream, err := b.js.Stream(ctx, Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return want, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the stream %s: %w", Stream, err)
	}
	return max(want, stream.CachedInfo().Config.Replicas), nil
}

// tooFewMembers are JetStream's errors of a stream with more replicas than the cluster has members
// now: no peers, insufficient resources, and no cluster at all.
var tooFewMembers = []jetstream.ErrorCode{10005, 10023, 10074}

func streamFault(err error, replicas int) error {
	var api *jetstream.APIError
	if replicas > 1 && errors.As(err, &api) && slices.Contains(tooFewMembers, api.ErrorCode) {
		return fault.New(fault.Unavailable, "NATS cannot keep the wake-ups in %d places: %s", replicas, api.Description).
			WithFix("see that %d members of the NATS cluster run, or set --nats-replicas 1 if the URLs are not those of a cluster", replicas).WithCause(err)
	}
	return fmt.Errorf("make the stream %s: %w", Stream, err)
}

// ensure creates the stream and every known pool's consumer, if they are absent.
func (b *Bus) ensure(ctx context.Context) error {
	replicas, err := b.replicas(ctx)
	if err != nil {
		return err
	}
	_, err = b.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: Stream, Subjects: []string{wakeSubject("*")},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
		Discard: jetstream.DiscardOld, MaxBytes: maxMemory / 2, MaxAge: maxAge,
		Replicas: replicas,
	})
	if err != nil {
		return streamFault(err, replicas)
	}
	b.mu.Lock()
	pools := make([]string, 0, len(b.pools))
	for pool := range b.pools {
		pools = append(pools, pool)
	}
	b.mu.Unlock()
	for _, pool := range pools {
		if err := b.ensureConsumer(ctx, pool); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) ensureConsumer(ctx context.Context, pool string) error {
	_, err := b.js.CreateOrUpdateConsumer(ctx, Stream, jetstream.ConsumerConfig{
		Durable: consumerName(pool), FilterSubject: wakeSubject(pool),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxDeliver: -1, MaxAckPending: -1, MemoryStorage: true,
	})
	if err != nil {
		return fmt.Errorf("make the consumer of pool %s: %w", pool, err)
	}
	return nil
}

// Publish wakes one worker of the pool ("" for the default one) and returns when the
// server has the wake-up.
func (b *Bus) Publish(ctx context.Context, pool string, w Wakeup) error {
	if pool == "" {
		pool = DefaultPool
	}
	if err := token("pool", pool); err != nil {
		return err
	}
	data, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("publish a wake-up: %w", err)
	}
	_, err = b.js.Publish(ctx, wakeSubject(pool), data)
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		// The server lost its memory and restore has not come to it yet.
		if err := b.ensure(ctx); err != nil {
			return fmt.Errorf("publish a wake-up: %w", err)
		}
		_, err = b.js.Publish(ctx, wakeSubject(pool), data)
	}
	if err != nil {
		return fmt.Errorf("publish a wake-up: %w", err)
	}
	return nil
}

// WorkerAccess returns how a worker receives its pool's wake-ups ("" for the default
// pool). It creates the pool's consumer if there is none.
func (b *Bus) WorkerAccess(ctx context.Context, pool, workerID string) (Access, error) {
	if pool == "" {
		pool = DefaultPool
	}
	if err := errors.Join(token("pool", pool), token("worker", workerID)); err != nil {
		return Access{}, err
	}
	b.mu.Lock()
	b.pools[pool] = true
	b.mu.Unlock()
	err := b.ensureConsumer(ctx, pool)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.ensure(ctx) // as in Publish
	}
	if err != nil {
		return Access{}, err
	}
	access := Access{InboxPrefix: inboxPrefix(workerID), Stream: Stream, Consumer: consumerName(pool)}
	if s := b.cfg.Server; s != nil {
		access.URL, access.Authority, access.ServerName = s.URL(), s.cfg.Authority, s.cfg.ServerName
		access.Username = workerUsername(pool, workerID)
		access.Password = workerPassword(s.cfg.WorkerSecret.Reveal(), access.Username)
		return access, nil
	}
	if b.cfg.WorkerURL != "" {
		access.URL, access.Username, access.Password, err = splitUser(b.cfg.WorkerURL.Reveal())
	} else {
		access.URL, _, _, err = splitUser(b.cfg.URL.Reveal())
	}
	if overTLS(access.URL) {
		access.Authority = b.cfg.Authority
	}
	return access, err
}

// splitUser takes the user and password out of a list of URLs.
func splitUser(servers string) (bare, user, password string, err error) {
	var out []string
	for server := range strings.SplitSeq(servers, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil {
			// The cause would print the URL with its password.
			return "", "", "", errors.New("nats-worker-url: not a URL such as nats://worker:secret@nats.example:4222")
		}
		if u.User != nil {
			user = u.User.Username()
			password, _ = u.User.Password()
			u.User = nil
		}
		out = append(out, u.String())
	}
	return strings.Join(out, ","), user, password, nil
}

// Status is how the stream of wake-ups does.
type Status struct {
	Messages  uint64
	Oldest    time.Duration
	Consumers int
	// Pending are wake-ups that were delivered and not acknowledged.
	Pending int
}

// Status returns how the stream of wake-ups does.
func (b *Bus) Status(ctx context.Context) (out Status, err error) {
	stream, err := b.js.Stream(ctx, Stream)
	if err != nil {
		return out, fmt.Errorf("look at the stream %s: %w", Stream, err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return out, fmt.Errorf("look at the stream %s: %w", Stream, err)
	}
	out.Messages, out.Consumers = info.State.Msgs, info.State.Consumers
	if out.Messages > 0 {
		out.Oldest = time.Since(info.State.FirstTime)
	}
	consumers := stream.ListConsumers(ctx)
	for c := range consumers.Info() {
		out.Pending += c.NumAckPending
	}
	if err := consumers.Err(); err != nil {
		return out, fmt.Errorf("list the consumers of %s: %w", Stream, err)
	}
	return out, nil
}
