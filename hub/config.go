// Package hub is the control plane: it stores the truth in PostgreSQL, decides
// every step, admits tasks, leases them to workers, and reaches the nodes that
// run commands. It holds no state but connections: any number of hubs may
// share a database, and losing one loses nothing.
package hub

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/oidc"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/listenaddr"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/tracing"
)

// Config is what a hub is made with.
type Config struct {
	// Listen is the API's address: Connect, gRPC and gRPC-Web, and the relay.
	Listen string `koanf:"listen"`
	// TLSCert and TLSKey are PEM files. Without them the API speaks plain HTTP,
	// which is refused on anything but loopback unless InsecureHTTP says so.
	TLSCert      string `koanf:"tls-cert"`
	TLSKey       string `koanf:"tls-key"`
	InsecureHTTP bool   `koanf:"insecure-http"`
	// BasePath is what browsers find the hub below, for example /deckhand; empty
	// for the root. Behind a proxy that takes the path off and says so in
	// X-Forwarded-Prefix it is not needed.
	BasePath string `koanf:"base-path"`
	// EdgeListen is where nodes dial their link, over mutual TLS.
	EdgeListen string `koanf:"edge-listen"`
	// EdgeAddress is what nodes are told to dial; the edge's own address when
	// empty.
	EdgeAddress string `koanf:"edge-address"`
	// PeerAddress is the host:port at which the other hubs reach this one's edge;
	// the edge's own address on this machine when empty.
	PeerAddress string `koanf:"peer-address"`
	// DataDir holds the keyset and the tokens of the first start.
	DataDir string `koanf:"data-dir"`
	// KeysetKey names the key that encrypts those that seal; see vault.OpenRoot.
	// Empty for keyset.json in DataDir.
	KeysetKey string `koanf:"keyset-key"`
	// DatabaseURL names the PostgreSQL database: postgres://….
	DatabaseURL config.Secret `koanf:"database-url"`
	// NATSURL, NATSEventsURL and NATSWorkerURL: see bus.Config.
	NATSURL       config.Secret `koanf:"nats-url"`
	NATSEventsURL config.Secret `koanf:"nats-events-url"`
	NATSWorkerURL config.Secret `koanf:"nats-worker-url"`
	// NATSCA is a PEM file of the authority that vouches for the servers of those
	// URLs; empty for those that the system trusts.
	NATSCA string `koanf:"nats-ca"`
	// NATSReplicas is how many members of a NATS cluster keep the wake-ups, an odd number up
	// to 5; 0 for 3 if NATSURL names three servers or more, and 1 otherwise.
	NATSReplicas int `koanf:"nats-replicas"`
	// NATSListen runs a NATS server inside this hub, on that address; off loopback
	// with TLS, for which the hub's own authority vouches.
	NATSListen string `koanf:"nats-listen"`
	// NATSLifecyclePassword lets others listen to lifecycle events on the server
	// of NATSListen, as the user lifecycle; empty for nobody.
	NATSLifecyclePassword config.Secret `koanf:"nats-lifecycle-password"`
	// NodePrograms is the folder of the programs that new nodes install; see
	// nodeinstall.New. It may be empty.
	NodePrograms string `koanf:"node-programs"`
	// NotifyAllow are the networks, besides public ones, to which destinations
	// may send, and without encryption: 10.20.0.0/16,192.0.2.7.
	NotifyAllow string `koanf:"notify-allow"`
	// ProviderAllow are the networks, besides public ones, in which
	// organisations may have model servers, search engines and login servers.
	ProviderAllow string `koanf:"provider-allow"`
	// NotifyGiveUp is for how long a notification is tried: 1 m to 30 days.
	NotifyGiveUp time.Duration `koanf:"notify-give-up"`
	// LeaseTTL is how long a worker's lease lasts without renewal: 1 s to 10 m.
	LeaseTTL time.Duration `koanf:"lease-ttl"`
	// UndoWindow is how long after its end a task's changes of files can be taken
	// back; 0 for 7 days, negative for ever.
	UndoWindow time.Duration `koanf:"undo-window"`
	// Supervised are the services that this process starts again when they end, and that the
	// hub or its nodes depend on: those of deckhand up.
	Supervised []*lifecycle.Restart `koanf:"-"`
	// MaxActive caps an organisation's tasks that run at once.
	MaxActive int `koanf:"max-active"`
	// EventRetention is how long a finished task's events are kept; 0 for ever.
	EventRetention time.Duration `koanf:"event-retention"`
	// DrainDelay is how long a hub that is told to stop goes on serving while it
	// says that it is not ready, for a balancer to notice.
	DrainDelay time.Duration `koanf:"drain-delay"`
	// DrainTimeout is how long calls in progress may go on after that: at most 1 h; 0 for not at all.
	DrainTimeout time.Duration `koanf:"drain-timeout"`
	// SessionIdle is for how long a login may go unused, and SessionLifetime how
	// old it may get; 0 for 12 h and 7 days.
	SessionIdle     time.Duration `koanf:"session-idle"`
	SessionLifetime time.Duration `koanf:"session-lifetime"`
	// APIRate is how many calls a second one token may make in the long run; from
	// one address may come twice as many. 0 for 200, negative for any number.
	APIRate int `koanf:"api-rate"`
	// TrustedProxies are the networks of proxies before the hub, whose
	// X-Forwarded-For is believed: 10.20.0.5,10.20.0.6.
	TrustedProxies string `koanf:"trusted-proxies"`
	// MCPDecide offers the MCP tool inbox_decide to tokens with the right to decide.
	MCPDecide bool `koanf:"mcp-decide"`
	// MaxPerUser caps one user's tasks that run at once.
	MaxPerUser int `koanf:"max-active-per-user"`
	// AnthropicBaseURL and AnthropicKey are what the model relay uses.
	AnthropicBaseURL string        `koanf:"anthropic-base-url"`
	AnthropicKey     config.Secret `koanf:"anthropic-api-key"`

	// UpgradeURL is where a person can get a larger subscription plan: an https address, or
	// mailto:. It may be empty.
	UpgradeURL string `koanf:"upgrade-url"`
	// PublicURL is where browsers find the hub: for logins by OIDC, passkeys, Web Push,
	// and links. Its host is what passkeys belong to. Its path, if any, is BasePath.
	PublicURL string `koanf:"public-url"`
	// OIDCIssuer and the rest: see oidc.Config.
	OIDCIssuer       string        `koanf:"oidc-issuer"`
	OIDCClientID     string        `koanf:"oidc-client-id"`
	OIDCClientSecret config.Secret `koanf:"oidc-client-secret"`
	OIDCRoles        string        `koanf:"oidc-roles"`
	OIDCGroupsClaim  string        `koanf:"oidc-groups-claim"`
	OIDCOrganisation string        `koanf:"oidc-organisation"`

	// natsAuthority is what NATSCA holds.
	natsAuthority string

	// oidc are those of OIDC, checked.
	oidc oidc.Config

	// public is PublicURL, read.
	public auth.PublicURL

	// LocalHTTP also serves plain HTTP on a free port of loopback, for callers in the same
	// process and on the same machine: the certificate is for other names.
	LocalHTTP bool `koanf:"-"`

	// notifyAllow is NotifyAllow, read, and so are the others.
	notifyAllow, providerAllow, trustedProxies []netip.Prefix

	// RotationSettle is rotation.Settle; shorter only in tests.
	RotationSettle time.Duration `koanf:"-"`

	// InProcessNATS runs the embedded NATS server without any address, for a
	// worker in the same process.
	InProcessNATS bool `koanf:"-"`

	// MetricsListen is where metrics are served; empty for nowhere.
	MetricsListen string `koanf:"metrics-listen"`
	// Registry takes the metrics; nil for one of the hub's own.
	Registry *prometheus.Registry `koanf:"-"`

	Log    hclog.Logger     `koanf:"-"`
	Redact *redact.Redactor `koanf:"-"`
	// Tracer makes spans; nil for none.
	Tracer *tracing.Tracer `koanf:"-"`
}

// Defaults.
const (
	DefaultListen     = "127.0.0.1:7800"
	DefaultEdgeListen = "0.0.0.0:7801"
	// DefaultLeaseTTL has the tasks of a worker that died continue elsewhere within 10 s.
	DefaultLeaseTTL    = 7 * time.Second
	DefaultMaxActive   = 1000
	DefaultMaxPerUser  = 3
	DefaultAnthropic   = "https://api.anthropic.com"
	minLeaseTTL        = time.Second
	maxLeaseTTL        = 10 * time.Minute
	maxNATSReplicas    = 5
	keysetFile         = "keyset.json"
	maxDrainDelay      = 5 * time.Minute
	minSession         = 5 * time.Minute
	maxGiveUp          = 30 * 24 * time.Hour
	heartbeatInterval  = 5 * time.Second
	nodeStaleIntervals = 4
)

func (c *Config) fill() error {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&c.Listen, DefaultListen)
	set(&c.EdgeListen, DefaultEdgeListen)
	set(&c.AnthropicBaseURL, DefaultAnthropic)
	if c.LeaseTTL == 0 {
		c.LeaseTTL = DefaultLeaseTTL
	}
	if c.MaxActive == 0 {
		c.MaxActive = DefaultMaxActive
	}
	if c.MaxPerUser == 0 {
		c.MaxPerUser = DefaultMaxPerUser
	}
	if c.NotifyGiveUp == 0 {
		c.NotifyGiveUp = notification.DefaultGiveUp
	}
	var err error
	if c.KeysetKey, err = rootURI(c.DataDir, c.KeysetKey); err != nil {
		return err
	}
	if c.notifyAllow, err = dialguard.ParseAllow("notify-allow", c.NotifyAllow); err != nil {
		return err
	}
	if c.providerAllow, err = dialguard.ParseAllow("provider-allow", c.ProviderAllow); err != nil {
		return err
	}
	if err := checkUpgradeURL(c.UpgradeURL); err != nil {
		return err
	}
	if err := c.readPublicURL(); err != nil {
		return err
	}
	c.oidc = oidc.Config{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret, PublicURL: c.PublicURL,
		Roles: c.OIDCRoles, GroupsClaim: c.OIDCGroupsClaim, Organisation: c.OIDCOrganisation,
	}
	if err := c.oidc.Check(); err != nil {
		return err
	}
	if c.trustedProxies, err = auth.ParseNetworks("trusted-proxies", strings.Split(c.TrustedProxies, ",")); err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Registry == nil {
		c.Registry = metricsserver.NewRegistry()
	}
	if c.Redact == nil {
		c.Redact = &redact.Redactor{}
	}
	invalid := func(format string, args ...any) *fault.Error { return fault.New(fault.Invalid, format, args...) }
	switch {
	case c.DataDir == "":
		return invalid("data-dir is empty").WithFix("name a folder for tokens and keys, for example /var/lib/deckhand")
	case c.DatabaseURL == "":
		return invalid("database-url is empty").WithFix("name a PostgreSQL database: postgres://user:password@host:5432/deckhand")
	case c.LeaseTTL < minLeaseTTL || c.LeaseTTL > maxLeaseTTL:
		return invalid("lease-ttl is %s", c.LeaseTTL).WithFix("use %s to %s", minLeaseTTL, maxLeaseTTL)
	case c.NATSReplicas < 0 || c.NATSReplicas > maxNATSReplicas || c.NATSReplicas > 0 && c.NATSReplicas%2 == 0:
		return invalid("nats-replicas is %d", c.NATSReplicas).WithFix("use 1, 3 or 5, and no more than there are members in the cluster of --nats-url")
	case c.MaxActive < 1:
		return invalid("max-active is %d", c.MaxActive).WithFix("use 1 or more")
	case c.EventRetention < 0 || c.EventRetention > 0 && c.EventRetention < time.Hour:
		return invalid("event-retention is %s", c.EventRetention).WithFix("use 0 to keep events for ever, or 1h or more")
	case c.NotifyGiveUp < time.Minute || c.NotifyGiveUp > maxGiveUp:
		return invalid("notify-give-up is %s", c.NotifyGiveUp).WithFix("use %s to %s", time.Minute, maxGiveUp)
	case c.SessionIdle < 0 || c.SessionIdle > 0 && c.SessionIdle < minSession:
		return invalid("session-idle is %s", c.SessionIdle).WithFix("use %s or more", minSession)
	case c.SessionLifetime < 0 || c.SessionLifetime > 0 && c.SessionLifetime < minSession:
		return invalid("session-lifetime is %s", c.SessionLifetime).WithFix("use %s or more", minSession)
	case c.DrainDelay < 0 || c.DrainDelay > maxDrainDelay:
		return invalid("drain-delay is %s", c.DrainDelay).WithFix("use 0 to %s", maxDrainDelay)
	case c.MaxPerUser < 1:
		return invalid("max-active-per-user is %d", c.MaxPerUser).WithFix("use 1 or more")
	case c.TLSCert == "" && c.TLSKey != "":
		return invalid("tls-key is %s, and tls-cert is empty", c.TLSKey).WithFix("give the certificate of that key too: --tls-cert FILE")
	case c.TLSCert != "" && c.TLSKey == "":
		return invalid("tls-cert is %s, and tls-key is empty", c.TLSCert).WithFix("give the key of that certificate too: --tls-key FILE")
	case c.NATSURL == "" && c.NATSListen == "" && !c.InProcessNATS:
		return invalid("there is no bus").WithFix("name a NATS server with --nats-url, or run one inside this hub with --nats-listen 127.0.0.1:4222")
	}
	if err := drain.Check(c.DrainTimeout); err != nil {
		return err
	}
	if err := c.checkBus(); err != nil {
		return err
	}
	for field, address := range map[string]string{"listen": c.Listen, "edge-listen": c.EdgeListen} {
		if err := CheckAddress(field, address); err != nil {
			return err
		}
	}
	if c.TLSCert == "" && !c.InsecureHTTP && !loopback(c.Listen) {
		return invalid("listen %s is not loopback, and the API would speak plain HTTP there", c.Listen).
			WithFix("give --tls-cert and --tls-key, or --insecure-http behind a proxy that adds TLS")
	}
	return nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return bus.Loopback(host)
}

// Complete checks the configuration and opens what the hub needs: keyset,
// database, certificate authority and listeners. Nothing is served yet.
func (c Config) Complete(ctx context.Context) (_ *Hub, err error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	c.Redact.Add(c.AnthropicKey.Reveal(), c.DatabaseURL.Reveal(), c.NATSURL.Reveal(), c.NATSEventsURL.Reveal(), c.NATSLifecyclePassword.Reveal(), c.OIDCClientSecret.Reveal())
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return nil, fault.New(fault.Precondition, "cannot make data-dir %s: %v", c.DataDir, err).WithFix("use a folder you may write to")
	}
	h := &Hub{cfg: c, replica: replicaName()}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	root, err := vault.OpenRoot(c.KeysetKey)
	if err != nil {
		return nil, err
	}
	if h.store, err = store.Open(ctx, c.DatabaseURL.Reveal()); err != nil {
		return nil, err
	}
	if err := h.store.RefuseUnfinished(ctx); err != nil {
		return nil, err
	}
	if h.vault, err = vault.New(ctx, root, h.store); err != nil {
		return nil, err
	}
	if h.ca, err = ca.Open(ctx, ca.Config{Store: vault.NewSecrets(h.store, h.vault)}); err != nil {
		return nil, err
	}
	if h.listener, err = c.listen(); err != nil {
		return nil, err
	}
	if h.localListener, err = c.listenLocal(); err != nil {
		return nil, err
	}
	if h.edgeListener, err = net.Listen("tcp", c.EdgeListen); err != nil {
		return nil, listenaddr.Fault("edge-listen", c.EdgeListen, err)
	}
	if err := h.assemble(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// CheckAddress returns an error for an invalid listen address. An empty address is valid:
// the default applies.
func CheckAddress(field, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fault.New(fault.Invalid, "--%s %q has no port", field, address).WithFix("use HOST:PORT, for example 127.0.0.1:7801")
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fault.New(fault.Invalid, "--%s %q has no valid port", field, address).WithFix("use HOST:PORT with a port from 0 to 65535, for example 127.0.0.1:7801")
	}
	return nil
}

// replicaName names this process among the hubs of an installation.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "hub"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), ident.New("r"))
}
