// Package up runs hub, worker and node in one process on one machine, for
// `deckhand up`. It uses an in-process message bus, a private PostgreSQL
// cluster and, if none is running, a private containerd. The components are the
// same as in production; only the wiring differs.
//
// They are stopped in the reverse order of their start. If PostgreSQL or
// containerd dies, it is restarted and the other components wait for it; if it
// cannot be kept running, the whole process ends. After a kill -9 the next
// start adopts the PostgreSQL and the containerd that are still running, and
// the node finds its commands again.
package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datalock"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/tracing"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/worker"
)

// Config is what everything is made with.
type Config struct {
	// DataDir holds all data: cluster, containerd, keys, tokens, workspaces.
	DataDir string `koanf:"data-dir"`
	// Listen and EdgeListen are the hub's addresses.
	Listen     string `koanf:"listen"`
	EdgeListen string `koanf:"edge-listen"`
	// PublicURL, TLSCert, TLSKey, InsecureHTTP and TrustedProxies are hub.Config's.
	PublicURL      string `koanf:"public-url"`
	UpgradeURL     string `koanf:"upgrade-url"`
	TLSCert        string `koanf:"tls-cert"`
	TLSKey         string `koanf:"tls-key"`
	InsecureHTTP   bool   `koanf:"insecure-http"`
	TrustedProxies string `koanf:"trusted-proxies"`
	MCPDecide      bool   `koanf:"mcp-decide"`
	// BasePath is hub.Config's.
	BasePath string `koanf:"base-path"`
	// DatabaseURL uses an existing database instead of a private cluster.
	DatabaseURL config.Secret `koanf:"database-url"`
	// NATSURL uses an existing NATS server instead of the in-process one.
	NATSURL config.Secret `koanf:"nats-url"`
	// NATSCA is hub.Config's.
	NATSCA string `koanf:"nats-ca"`
	// NotifyAllow is hub.Config's.
	NotifyAllow string `koanf:"notify-allow"`
	// UndoWindow is hub.Config's.
	UndoWindow time.Duration `koanf:"undo-window"`
	// ProviderAllow is hub.Config's.
	ProviderAllow string `koanf:"provider-allow"`
	// Containerd uses the containerd at that socket. Empty: the machine's own
	// when one is running, else a private one.
	Containerd string `koanf:"containerd"`
	// ShowPaths and SpecialAddresses are daemon.Config's.
	ShowPaths        daemon.Paths `koanf:"show-paths"`
	SpecialAddresses daemon.Paths `koanf:"special-addresses"`
	// Images is daemon.Config's.
	Images daemon.Images `koanf:",squash"`
	// Pressure is from when on neither node nor worker start anything new.
	Pressure pressure.Limits `koanf:",squash"`
	// Slots is how many tasks the worker runs at once.
	Slots            int           `koanf:"slots"`
	LeaseTTL         time.Duration `koanf:"lease-ttl"`
	AnthropicBaseURL string        `koanf:"anthropic-base-url"`
	AnthropicKey     config.Secret `koanf:"anthropic-api-key"`

	// Tracer makes spans; nil for none.
	Tracer *tracing.Tracer `koanf:"-"`
	// Started, if set, is called after each part that has started.
	Started func(name string, took time.Duration) `koanf:"-"`
	// MetricsListen is where the metrics of all three are served; empty for nowhere.
	MetricsListen string `koanf:"metrics-listen"`

	Log    hclog.Logger     `koanf:"-"`
	Redact *redact.Redactor `koanf:"-"`
}

// DefaultEdgeListen is loopback: the only node is in the same process.
const DefaultEdgeListen = "127.0.0.1:7801"

const (
	lockFile = "up.lock"
	database = "deckhand"
)

// Up is everything on one machine. It is a lifecycle.Service.
type Up struct {
	lifecycle.Group

	cfg     Config
	cluster *postgres.Cluster // nil when an existing database is used
	hub     *hub.Hub          // set when it was made
	metrics *prometheus.Registry
	unlock  func() error
}

// Complete checks that the machine has what is needed and locks the data
// folder. Nothing runs yet.
func (c Config) Complete(ctx context.Context) (_ *Up, err error) {
	if os.Geteuid() != 0 {
		return nil, fault.New(fault.Precondition, "deckhand up makes jails, which only root may").
			WithFix("run it with sudo; or run the roles apart: deckhand hub and worker as any user, deckhand-node as root")
	}
	if c.DataDir == "" {
		return nil, fault.New(fault.Invalid, "data-dir is empty").WithFix("name a folder, for example /var/lib/deckhand")
	}
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return nil, fmt.Errorf("data-dir: %w", err)
	}
	if c.EdgeListen == "" {
		c.EdgeListen = DefaultEdgeListen
	}
	for field, address := range map[string]string{"listen": c.Listen, "edge-listen": c.EdgeListen} {
		if err := hub.CheckAddress(field, address); err != nil {
			return nil, err
		}
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Redact == nil {
		c.Redact = &redact.Redactor{}
	}
	// Jails pass through it in a user namespace of their own: searchable by
	// all, readable by root.
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return nil, fault.New(fault.Precondition, "cannot make data-dir %s: %v", c.DataDir, err).WithFix("use a folder you may write to")
	}
	u := &Up{cfg: c, metrics: metricsserver.NewRegistry()}
	if u.unlock, err = datalock.Lock(filepath.Join(c.DataDir, lockFile), "deckhand up"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.unlock())
		}
	}()
	if err := u.assemble(ctx); err != nil {
		return nil, err
	}
	return u, nil
}

// assemble puts the services into order. What is missing on the machine is
// found here, before anything is started.
func (u *Up) assemble(ctx context.Context) error {
	address := u.cfg.Containerd
	if address == "" && containerd.Running(jail.DefaultContainerd) {
		address = jail.DefaultContainerd
	}
	if address == "" {
		d, err := containerd.Config{DataDir: filepath.Join(u.cfg.DataDir, "containerd")}.Complete(ctx)
		if err != nil {
			return err
		}
		u.add("containerd", u.restarted("containerd", d))
		address = d.Address()
	}
	if u.cfg.DatabaseURL == "" {
		var err error
		if u.cluster, err = (postgres.Config{DataDir: filepath.Join(u.cfg.DataDir, "postgres")}).Complete(ctx); err != nil {
			return err
		}
		u.add("PostgreSQL", u.restarted("PostgreSQL", u.cluster))
	}
	if u.cfg.MetricsListen != "" {
		u.add("metrics", metricsserver.New(u.cfg.MetricsListen, u.metrics, nil, u.cfg.Log.Named("metrics")))
	}
	u.add("hub", &lifecycle.Lazy{Make: u.makeHub})
	u.add("node", &lifecycle.Lazy{Make: func(ctx context.Context) (lifecycle.Service, error) { return u.makeNode(ctx, address) }})
	u.add("worker", &lifecycle.Lazy{Make: u.makeWorker})
	return nil
}

// add appends a service whose start is reported.
func (u *Up) add(name string, s lifecycle.Service) {
	u.Add(name, timed{Service: s, name: name, started: u.cfg.Started})
}

// timed is a service that reports how long its start took.
type timed struct {
	lifecycle.Service

	name    string
	started func(name string, took time.Duration)
}

// Start starts the service.
func (t timed) Start(ctx context.Context) error {
	begun := time.Now()
	if err := t.Service.Start(ctx); err != nil {
		return err
	}
	if t.started != nil {
		t.started(t.name, time.Since(begun))
	}
	return nil
}

// process is a daemon that up starts as a process of its own.
type process interface {
	lifecycle.Service

	LogFile() string
}

// restarted keeps a daemon up, so that its death costs only the time until it
// is back.
func (u *Up) restarted(name string, d process) lifecycle.Service {
	return &lifecycle.Restart{
		Name: name, Service: d, Log: u.cfg.Log,
		Fix: fmt.Sprintf("read the end of %s, mend what it names (a full disk, too little memory), and start deckhand up again: no data was removed", d.LogFile()),
	}
}

func (u *Up) makeHub(ctx context.Context) (lifecycle.Service, error) {
	url := u.cfg.DatabaseURL
	if u.cluster != nil {
		if err := u.cluster.EnsureDatabase(ctx, database); err != nil {
			return nil, err
		}
		url = config.Secret(u.cluster.URL(database))
	}
	h, err := hub.Config{
		UpgradeURL: u.cfg.UpgradeURL, PublicURL: u.cfg.PublicURL, TLSCert: u.cfg.TLSCert, TLSKey: u.cfg.TLSKey, InsecureHTTP: u.cfg.InsecureHTTP,
		TrustedProxies: u.cfg.TrustedProxies, MCPDecide: u.cfg.MCPDecide, LocalHTTP: true,
		Listen: u.cfg.Listen, BasePath: u.cfg.BasePath, EdgeListen: u.cfg.EdgeListen, DataDir: u.cfg.DataDir, DatabaseURL: url,
		NATSURL: u.cfg.NATSURL, NATSCA: u.cfg.NATSCA, InProcessNATS: u.cfg.NATSURL == "", LeaseTTL: u.cfg.LeaseTTL,
		AnthropicBaseURL: u.cfg.AnthropicBaseURL, AnthropicKey: u.cfg.AnthropicKey,
		NotifyAllow: u.cfg.NotifyAllow, ProviderAllow: u.cfg.ProviderAllow, UndoWindow: u.cfg.UndoWindow,
		Registry: u.metrics, Log: u.cfg.Log.Named("hub"), Redact: u.cfg.Redact, Tracer: u.cfg.Tracer,
	}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	u.hub = h
	return h, nil
}

func (u *Up) makeNode(ctx context.Context, address string) (lifecycle.Service, error) {
	d, err := daemon.Config{
		DataDir: filepath.Join(u.cfg.DataDir, "node"), HubURL: u.hub.URL(), Containerd: address,
		EdgeAddress: u.hub.EdgeAddress(), EndJails: true, MakeJoinToken: u.hub.LocalJoinToken,
		ShowPaths: u.cfg.ShowPaths, SpecialAddresses: u.cfg.SpecialAddresses, Images: u.cfg.Images, Pressure: u.cfg.Pressure, Registry: u.metrics, Log: u.cfg.Log.Named("node"), Redact: u.cfg.Redact,
	}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (u *Up) makeWorker(ctx context.Context) (lifecycle.Service, error) {
	token, err := u.hub.WorkerToken()
	if err != nil {
		return nil, err
	}
	cfg := worker.Config{
		HubURL: u.hub.URL(), Token: config.Secret(token), Slots: u.cfg.Slots, Pressure: u.cfg.Pressure,
		Registry: u.metrics, Log: u.cfg.Log.Named("worker"), Redactor: u.cfg.Redact, Tracer: u.cfg.Tracer,
	}
	if server := u.hub.NATS(); server != nil {
		cfg.NATSOptions = []nats.Option{nats.InProcessServer(server)}
	}
	w, err := cfg.Complete(ctx)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Start starts everything in order.
func (u *Up) Start(ctx context.Context) error {
	if err := u.Group.Start(ctx); err != nil {
		return errors.Join(err, u.unlock())
	}
	return nil
}

// Stop ends everything in reverse order and lets go of the data folder.
func (u *Up) Stop() {
	u.Group.Stop()
	// The kernel lets go of it at the latest when the process ends.
	_ = u.unlock()
}

// URL is where the hub's API is.
func (u *Up) URL() string { return u.hub.URL() }

// PublicURL is where browsers find the console.
func (u *Up) PublicURL() string { return u.hub.PublicURL() }

// DataDir is where everything is kept.
func (u *Up) DataDir() string { return u.cfg.DataDir }
