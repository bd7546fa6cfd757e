// Package daemon is the node daemon. It enrols the machine with its hub,
// creates the ledger and the services for jails, execs and files, and serves
// them over the link.
//
// Commands do not depend on the daemon: they belong to the init of their jail,
// and the daemon finds them again when it starts. Stopping or killing the
// daemon ends no command.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/datalock"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/node/diskforecast"
	"github.com/deckhand-sh/deckhand/node/egress/process"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/files"
	"github.com/deckhand-sh/deckhand/node/identity"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/journal"
	"github.com/deckhand-sh/deckhand/node/ledger"
	"github.com/deckhand-sh/deckhand/node/link"
	"github.com/deckhand-sh/deckhand/node/operatorskill"
	"github.com/deckhand-sh/deckhand/node/pack"
	"github.com/deckhand-sh/deckhand/node/snapshot"
	"github.com/deckhand-sh/deckhand/node/telemetry"
	"github.com/deckhand-sh/deckhand/node/upgrade"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Below the data folder; jail.Manager has folders of its own there.
const (
	lockFile = "daemon.lock"
	// IdentityDir has what the machine is enrolled with; see package identity.
	IdentityDir = "identity"
	ledgerFile  = "ledger.db"
	jailsDir    = "jails"
	egressDir   = "egress"
	builtinDir  = "builtin-skills"

	upgradeDir = "upgrade"

	diskHistoryFile = "disk-history.json"
)

// endJailsTimeout is how long the jails may take to end, all together.
const endJailsTimeout = 20 * time.Second

// Daemon is a node. It runs once: Stop, or the end of its context, closes what
// Complete opened.
type Daemon struct {
	lifecycle.Runner

	cfg       Config
	identity  *identity.Identity
	ledger    *ledger.Ledger
	skills    []operatorskill.Skill
	egress    *process.Process
	jails     *jail.Manager
	snapshots *snapshot.Service
	execs     *exec.Service
	files     *files.Service
	usage     *telemetry.Service
	journal   *journal.Machine
	pressure  *pressure.Watch
	notify    *notifier
	linked    atomic.Bool // a session with the hub stands
	metrics   *metrics
	// upgrades is nil where the program cannot be replaced; replace gets what is to be tried.
	upgrades *upgrade.Upgrader
	replace  chan *upgrade.Ready
	services lifecycle.Group

	closing sync.Once
	opened  []func() error // closed in reverse
}

var _ lifecycle.Service = (*Daemon)(nil)

// Complete checks the configuration, locks the data folder and opens what the
// node keeps. The hub is not asked yet, and nothing is served.
func (c Config) Complete(ctx context.Context) (_ *Daemon, err error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fault.New(fault.Precondition, "a node makes jails, for which it needs root").
			WithFix("run it with sudo, or as a system service")
	}
	d := &Daemon{replace: make(chan *upgrade.Ready, 1)}
	c.Log = c.Log.With(logging.NodeID, ownID{d})
	own := journal.Listen(c.Log, c.Redact)
	d.opened = append(d.opened, own.Close)
	d.cfg, d.notify = c, &notifier{address: c.NotifySocket, log: c.Log.Named("systemd")}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	// Searchable, since jails reach their root through it, but not listed.
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	unlock, err := datalock.Lock(filepath.Join(c.DataDir, lockFile), "deckhand-node")
	if err != nil {
		return nil, err
	}
	d.opened = append(d.opened, unlock)
	if d.identity, err = identity.Open(identity.Config{Dir: filepath.Join(c.DataDir, IdentityDir), Reserve: d.onFullDisk}); err != nil {
		return nil, err
	}
	if !d.identity.Enrolled() && (c.HubURL == "" || c.JoinToken == "" && c.MakeJoinToken == nil) {
		return nil, fault.New(fault.Invalid, "this machine is not enrolled yet, and join-token or hub-url is empty").
			WithFix("run `deckhand node token` for a token, then start with --hub-url and DECKHAND_JOIN_TOKEN")
	}
	if c.Upgrades {
		if d.upgrades, err = upgrade.New(upgrade.Config{
			Key: c.ReleaseKey, Dir: filepath.Join(c.DataDir, upgradeDir), HubURL: d.hubURL, Trial: c.Linked != nil, Log: c.Log.Named("upgrade"),
		}); err != nil {
			return nil, err
		}
	}
	d.metrics = newMetrics(c.Registry, nodeState{
		dir: c.DataDir, usage: d.latestUsage, jails: func() int { return len(d.jails.Connected()) }, reserved: func() bool { return d.ledger.Reserved() },
	})
	if d.ledger, err = ledger.Open(ledger.Config{Path: filepath.Join(c.DataDir, ledgerFile), Retention: c.KeepResults, Committed: d.metrics.committed}); err != nil {
		return nil, err
	}
	d.opened = append(d.opened, d.ledger.Close)
	skills, err := operatorskill.Load(c.SkillsDir)
	if err != nil {
		return nil, err
	}
	if d.skills, err = operatorskill.WithBuiltin(skills, filepath.Join(c.DataDir, builtinDir)); err != nil {
		return nil, err
	}
	special, err := c.SpecialAddresses.prefixes()
	if err != nil {
		return nil, err
	}
	images, err := c.Images.config()
	if err != nil {
		return nil, err
	}
	if err := clearMounts(c); err != nil {
		return nil, err
	}
	if d.egress, err = process.New(process.Config{
		Dir: filepath.Join(c.DataDir, egressDir), UID: c.EgressUID, Special: special, Log: c.Log.Named("egress"),
	}); err != nil {
		return nil, err
	}
	if d.jails, err = jail.NewManager(ctx, jail.Config{
		DataDir: c.DataDir, Containerd: c.Containerd, Namespace: c.Namespace, UIDBase: c.UIDBase,
		RootPaths: c.RootPaths, ShowPaths: c.ShowPaths, JailShare: c.MaxJailShare, Overcommit: c.MaxJailsOvercommit, SoftWorkspaces: c.SoftWorkspaces, InitPath: c.InitPath, Skills: d.shownSkills(), Log: c.Log.Named("jail"),
		IdleStop: c.IdleStop, NoHostMode: c.NoHostMode, GVisorPlatform: c.GVisorPlatform, Reserve: d.ledger, Egress: d.egress, Images: images,
	}); err != nil {
		return nil, err
	}
	d.opened = append(d.opened, d.jails.Close)
	if d.snapshots, err = snapshot.New(snapshot.Config{
		Jails: d.jails, Dir: filepath.Join(c.DataDir, jailsDir), Log: c.Log.Named("snapshot"),
		KeepFor: c.KeepChanges, MaxBytes: c.KeepChangesBytes,
	}); err != nil {
		return nil, err
	}
	if d.execs, err = exec.NewService(exec.Config{
		Ledger: d.ledger, Jails: d.jails, Workspaces: d.snapshots, Egress: d.egress, Ended: d.metrics.ended, Log: c.Log.Named("exec"), Mask: c.Redact.Mask, LogAge: c.KeepLogs, LogBytes: c.KeepLogBytes, OutputBytes: c.MaxOutputBytes,
	}); err != nil {
		return nil, err
	}
	if d.files, err = files.New(files.Config{Workspaces: d.jails, Ledger: d.ledger, Changes: d.snapshots, Browsed: c.BrowsePaths,
		Folder: func(dir string) (string, error) { return jail.BrowsedFolder(c.DataDir, dir) }}); err != nil {
		return nil, err
	}
	if d.journal, err = journal.New(journal.Config{Units: c.JournalUnits, Fields: c.JournalFields, Dir: c.JournalDir, Own: own}); err != nil {
		return nil, err
	}
	if d.usage, err = telemetry.New(telemetry.Config{Jails: d.jails, Dir: c.DataDir, Log: c.Log.Named("telemetry")}); err != nil {
		return nil, err
	}
	d.pressure = pressure.New(pressure.Config{Limits: c.Pressure, Measure: c.Measure, Log: c.Log.Named("pressure")})
	upstream, err := link.New(link.Config{
		Identity: d.identity, Services: d.register, Hello: d.hello, HubURL: c.HubURL, EdgeAddress: c.EdgeAddress,
		OnChange: func(connected bool) {
			d.linked.Store(connected)
			d.metrics.linked(connected)
			d.notify.linked(connected)
		},
		OnContact: func() {
			d.execs.Contact()
			d.notify.contact()
		},
		OnAccepted: func() {
			if c.Linked != nil {
				c.Linked()
			}
		},
		Pressure:     d.pressure.Now,
		OnRecorded:   func(ids []string) { d.execs.Recorded(ids) },
		DrainTimeout: c.DrainTimeout,
		Log:          c.Log.Named("link"),
	})
	if err != nil {
		return nil, err
	}
	if c.MetricsListen != "" {
		d.services.Add("metrics", metricsserver.New(c.MetricsListen, c.Registry, d.ready, c.Log.Named("metrics")))
	}
	// Before anything looks for the jails that run, and gone after.
	d.services.Add("egress", d.egress)
	// First: an undo that was cut short is finished before anything else.
	d.services.Add("snapshots", d.snapshots)
	d.services.Add("execs", d.execs)
	d.services.Add("reaper", jail.NewReaper(d.jails))
	d.services.Add("telemetry", d.usage)
	d.services.Add("disk history", diskforecast.New(filepath.Join(c.DataDir, diskHistoryFile), c.DataDir))
	d.services.Add("pressure", d.pressure)
	d.services.Add("link", upstream)
	return d, nil
}

// onFullDisk runs a write that control depends on, on a full disk as well.
func (d *Daemon) onFullDisk(write func() error) error {
	if d.ledger == nil {
		return write() // still being opened
	}
	return d.ledger.WithReserve(write)
}

func (d *Daemon) register(r grpc.ServiceRegistrar) {
	nodev1.RegisterExecServiceServer(r, d.execs)
	nodev1.RegisterNodeServiceServer(r, nodeServer{d: d})
	nodev1.RegisterTelemetryServiceServer(r, d.usage)
	nodev1.RegisterJailServiceServer(r, jail.NewServer(d.jails))
	nodev1.RegisterImageServiceServer(r, image.NewServer(d.jails.Images()))
	nodev1.RegisterPackServiceServer(r, pack.NewServer(pack.ServerConfig{DataDir: d.cfg.DataDir, Pins: pack.DefaultPins, Client: http.DefaultClient, Log: d.cfg.Log.Named("pack")}))
	nodev1.RegisterEgressServiceServer(r, process.NewServer(d.egress))
	nodev1.RegisterFileServiceServer(r, d.files)
	nodev1.RegisterSnapshotServiceServer(r, d.snapshots)
}

// Start enrols the machine if need be, adopts what runs on it, and begins to
// dial the hub. It does not wait for the link. After an error only Stop is
// left to call.
func (d *Daemon) Start(ctx context.Context) error {
	if err := d.enrol(ctx); err != nil {
		return err
	}
	// The parts end one by one, in order, and not with ctx.
	if err := d.services.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := d.Run(ctx, d.watch); err != nil {
		d.services.Stop()
		return err
	}
	d.notify.ready()
	d.cfg.Log.Info("node is ready", "name", d.cfg.Name, "edge", d.identity.EdgeAddress())
	return nil
}

// latestUsage returns the newest sample of what the machine uses; nil before the first.
func (d *Daemon) latestUsage() *nodev1.TelemetrySample {
	if d.usage == nil {
		return nil
	}
	return d.usage.Latest()
}

// hubURL returns the address of the hub's API.
func (d *Daemon) hubURL() string { return cmp.Or(d.cfg.HubURL, d.identity.HubURL()) }

// ownID is the node's id in lines of its log: empty before it is enrolled.
type ownID struct{ d *Daemon }

// String returns the id.
func (i ownID) String() string {
	if i.d.identity == nil {
		return ""
	}
	return i.d.identity.NodeID()
}

// MarshalText is String for JSON.
func (i ownID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// NodeID returns the id that the hub gave this node; empty before Start.
func (d *Daemon) NodeID() string { return d.identity.NodeID() }

// Stop ends the link in order and closes what Complete opened. Commands
// continue.
func (d *Daemon) Stop() {
	d.Runner.Stop()
	_ = d.close()
}

func (d *Daemon) watch(ctx context.Context) error {
	var errs []error
	select {
	case <-ctx.Done():
		d.notify.stopping(d.cfg.DrainTimeout)
	case <-d.services.Done():
		d.notify.stopping(d.cfg.DrainTimeout)
	case ready := <-d.replace:
		// systemd is not told that it stops: the process goes on.
		d.notify.upgrading(ready.Version)
		errs = append(errs, ready)
	}
	d.services.Stop()
	errs = append(errs, d.services.Err())
	if d.cfg.EndJails {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endJailsTimeout)
		defer cancel()
		errs = append(errs, d.jails.Shutdown(ending))
	}
	return errors.Join(append(errs, d.close())...)
}

// close closes what is open, in reverse, once.
func (d *Daemon) close() error {
	var errs []error
	d.closing.Do(func() {
		for i := len(d.opened) - 1; i >= 0; i-- {
			errs = append(errs, d.opened[i]())
		}
	})
	return errors.Join(errs...)
}

// EnrolError is an error of the machine's enrolment, and not of the machine.
type EnrolError struct{ error }

// Unwrap returns the cause.
func (e EnrolError) Unwrap() error { return e.error }

// enrol ensures that the hub knows this machine. One that is enrolled needs no
// token and looks at none, but to refuse another hub's, and to use it when its
// certificate has expired.
func (d *Daemon) enrol(ctx context.Context) error {
	text := d.cfg.JoinToken.Reveal()
	if d.identity.Enrolled() {
		return d.enrolAgain(ctx, text)
	}
	if text == "" {
		var err error
		if text, err = d.cfg.MakeJoinToken(ctx); err != nil {
			return fmt.Errorf("make a join token: %w", err)
		}
	}
	if err := d.identity.Enrol(ctx, d.enrolment(text)); err != nil {
		return EnrolError{err}
	}
	d.cfg.Log.Info("enrolled", "hub", d.cfg.HubURL)
	return nil
}

func (d *Daemon) enrolAgain(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return err
	}
	if err := d.identity.CheckToken(token); err != nil {
		return err
	}
	if d.identity.Lapsed() && d.cfg.HubURL != "" {
		// If this fails, the link continues trying by the lapsed certificate.
		if err := d.identity.Enrol(ctx, d.enrolment(text)); err != nil {
			d.cfg.Log.Warn("cannot enrol again with the join token", "error", err)
		}
	}
	return nil
}

func (d *Daemon) enrolment(token string) identity.Enrolment {
	return identity.Enrolment{HubURL: d.cfg.HubURL, JoinToken: token, Name: d.cfg.Name, Labels: d.cfg.Labels}
}
