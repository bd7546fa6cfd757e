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
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/tracing"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/worker"
)

// Config is what everything is made with: the settings of the three roles, from one
// file. Where roles share a key, such as data-dir or name, one value is for all.
type Config struct {
	// Hub has the settings of the hub. Its DataDir holds all data: cluster,
	// containerd, keys, tokens, workspaces. Without a DatabaseURL there is a private
	// cluster, and without a NATSURL the bus is in the process.
	Hub hub.Config `koanf:",squash"`
	// Worker has the settings of the worker, but for Own.
	Worker worker.Config `koanf:",squash"`
	// Node has the settings of the node, but for Own. Its Containerd may be empty:
	// the machine's own when one is running, else a private one.
	Node daemon.Config `koanf:",squash"`

	// Tracer makes spans; nil for none.
	Tracer *tracing.Tracer `koanf:"-"`
	// Started, if set, is called after each part that has started.
	Started func(name string, took time.Duration) `koanf:"-"`

	Log    hclog.Logger     `koanf:"-"`
	Redact *redact.Redactor `koanf:"-"`
}

// Own returns the settings of the roles that up makes itself, and why a person
// cannot give them.
func Own() map[string]string {
	return map[string]string{ //nolint:gosec // reasons, not credentials
		"hub-url":     "the worker and the node of deckhand up belong to its own hub",
		"token":       "deckhand up gives its worker a token",
		"join-token":  "deckhand up enrols its node itself",
		"release-key": "deckhand up is upgraded as a whole, by its package",
	}
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
	// supervised are the daemons that are started again when they end.
	supervised []*lifecycle.Restart
	unlock     func() error
}

// Complete checks that the machine has what is needed and locks the data
// folder. Nothing runs yet.
func (c Config) Complete(ctx context.Context) (_ *Up, err error) {
	if os.Geteuid() != 0 {
		return nil, fault.New(fault.Precondition, "deckhand up makes jails, which only root may").
			WithFix("run it with sudo; or run the roles apart: deckhand hub and worker as any user, deckhand-node as root")
	}
	if c.Hub.DataDir == "" {
		return nil, fault.New(fault.Invalid, "data-dir is empty").WithFix("name a folder, for example /var/lib/deckhand")
	}
	if c.Hub.DataDir, err = filepath.Abs(c.Hub.DataDir); err != nil {
		return nil, fmt.Errorf("data-dir: %w", err)
	}
	if c.Hub.EdgeListen == "" {
		c.Hub.EdgeListen = DefaultEdgeListen
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Redact == nil {
		c.Redact = &redact.Redactor{}
	}
	// Jails pass through it in a user namespace of their own: searchable by
	// all, readable by root.
	if err := os.MkdirAll(c.Hub.DataDir, 0o711); err != nil {
		return nil, fault.New(fault.Precondition, "cannot make data-dir %s: %v", c.Hub.DataDir, err).WithFix("use a folder you may write to")
	}
	if err := CheckOwner(c.Hub.DataDir); err != nil {
		return nil, err
	}
	u := &Up{cfg: c, metrics: metricsserver.NewRegistry()}
	if u.unlock, err = datalock.Lock(filepath.Join(c.Hub.DataDir, lockFile), "deckhand up"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.unlock())
		}
	}()
	if err := c.checkMachine(); err != nil {
		return nil, err
	}
	if err := u.assemble(ctx); err != nil {
		return nil, err
	}
	return u, nil
}

// assemble puts the services into order. What is missing on the machine is
// found here, before anything is started.
func (u *Up) assemble(ctx context.Context) error {
	address := u.cfg.Node.Containerd
	if address == "" && containerd.Running(jail.DefaultContainerd) {
		address = jail.DefaultContainerd
	}
	if address == "" {
		d, err := containerd.Config{DataDir: filepath.Join(u.cfg.Hub.DataDir, "containerd")}.Complete(ctx)
		if err != nil {
			return err
		}
		u.add("containerd", u.restarted("containerd", d))
		address = d.Address()
	}
	if u.cfg.Hub.DatabaseURL == "" {
		var err error
		if u.cluster, err = (postgres.Config{DataDir: filepath.Join(u.cfg.Hub.DataDir, "postgres")}).Complete(ctx); err != nil {
			return err
		}
		u.add("PostgreSQL", u.restarted("PostgreSQL", u.cluster))
	}
	if u.cfg.Hub.MetricsListen != "" {
		u.add("metrics", metricsserver.New(u.cfg.Hub.MetricsListen, u.metrics, nil, u.cfg.Log.Named("metrics")))
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
	r := &lifecycle.Restart{
		Name: name, Service: d, Log: u.cfg.Log,
		Fix: fmt.Sprintf("read the end of %s, mend what it names (a full disk, too little memory), and start deckhand up again: no data was removed", d.LogFile()),
	}
	u.supervised = append(u.supervised, r)
	return r
}

func (u *Up) makeHub(ctx context.Context) (lifecycle.Service, error) {
	url := u.cfg.Hub.DatabaseURL
	if u.cluster != nil {
		if err := u.cluster.EnsureDatabase(ctx, database); err != nil {
			return nil, err
		}
		url = config.Secret(u.cluster.URL(database))
	}
	if err := checkSchema(ctx, url.Reveal(), u.cfg.Hub.DataDir); err != nil {
		return nil, err
	}
	// Before the hub brings the schema up to date: after a start that fails in the middle, an
	// older release must know.
	if err := writeFormat(u.cfg.Hub.DataDir); err != nil {
		return nil, err
	}
	cfg := u.cfg.Hub
	cfg.DatabaseURL, cfg.LocalHTTP, cfg.MetricsListen, cfg.Supervised = url, true, "", u.supervised
	cfg.InProcessNATS = cfg.NATSURL == "" && cfg.NATSListen == ""
	cfg.Registry, cfg.Log, cfg.Redact, cfg.Tracer = u.metrics, u.cfg.Log.Named("hub"), u.cfg.Redact, u.cfg.Tracer
	h, err := cfg.Complete(ctx)
	if err != nil {
		return nil, err
	}
	u.hub = h
	return h, nil
}

func (u *Up) makeNode(ctx context.Context, address string) (lifecycle.Service, error) {
	cfg := u.cfg.Node
	cfg.DataDir, cfg.HubURL, cfg.Containerd, cfg.MetricsListen = filepath.Join(u.cfg.Hub.DataDir, "node"), u.hub.URL(), address, ""
	cfg.EdgeAddress, cfg.EndJails, cfg.MakeJoinToken = hub.LocalEdgeAddress(u.hub), true, u.hub.LocalJoinToken
	cfg.Registry, cfg.Log, cfg.Redact = u.metrics, u.cfg.Log.Named("node"), u.cfg.Redact
	d, err := cfg.Complete(ctx)
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
	cfg := u.cfg.Worker
	cfg.HubURL, cfg.Token, cfg.MetricsListen = u.hub.URL(), config.Secret(token), ""
	cfg.Registry, cfg.Log, cfg.Redactor, cfg.Tracer = u.metrics, u.cfg.Log.Named("worker"), u.cfg.Redact, u.cfg.Tracer
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
func (u *Up) DataDir() string { return u.cfg.Hub.DataDir }
