// Package diagnose finds what is wrong with an installation, for "deckhand doctor". A
// Doctor looks and changes nothing. Every Finding that is not OK says how to fix it.
//
// Checks run at the same time and are bounded each; one that cannot be made is a finding
// itself, and keeps none of the others from being made.
package diagnose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// State is how a check came out.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warn" // tasks run, and something is less than it could be
	Fail State = "fail" // tasks do not run, or data is at risk
)

// Finding is what one check found.
type Finding struct {
	Check    string
	State    State
	Evidence string
	Fix      string // empty when all is well
}

const (
	// patience bounds each check, and nodePatience those of a node, which asks others.
	patience     = 10 * time.Second
	nodePatience = 15 * time.Second
	// atOnce is how many checks run at a time.
	atOnce = 16
	// soon is how far ahead keys and tokens that expire are reported.
	soon = 14 * 24 * time.Hour
)

// Config holds what a Doctor looks at. All are required.
type Config struct {
	Store       *store.Store
	Bus         *bus.Bus
	Nodes       *node.Nodes
	Node        func(nodeID string) (machine.Link, error)
	Credentials *credential.Credentials
	Plans       *quota.Service
	// DataDir is the hub's data folder, whose files others must not read.
	DataDir string
	// Replica connects to a hub as the calls of nodes that it holds do, and returns until when
	// its certificate is valid.
	Replica func(ctx context.Context, id, address string) (validUntil time.Time, err error)
	// TLSCert is the file of the API's certificate; empty without HTTPS.
	TLSCert string
	// CAExpires is when the certificate authority of nodes and hubs ends.
	CAExpires func() time.Time
}

// Doctor makes the checks.
type Doctor struct{ cfg Config }

// New creates a Doctor.
func New(cfg Config) *Doctor { return &Doctor{cfg: cfg} }

// Request says which checks are made.
type Request struct {
	OrgID string
	// Installation also checks what all organisations share.
	Installation bool
	// CallProviders makes a test call to each provider.
	CallProviders bool
}

// check makes one or more findings.
type check struct {
	name  string
	run   func(ctx context.Context) ([]Finding, error)
	limit time.Duration // 0 for patience
}

// Run makes all checks, and returns their findings in a fixed order.
func (d *Doctor) Run(ctx context.Context, r Request) []Finding {
	var checks []check
	if r.Installation {
		checks = append(checks, check{name: "database", run: d.database}, check{name: "migrations", run: d.migrations}, check{name: "bus", run: d.bus},
			check{name: "hubs", run: d.replicas}, check{name: "certificate authority", run: d.authority}, check{name: "file modes", run: d.fileModes},
			check{name: "HTTPS certificate", run: d.serverCertificate})
	}
	org := func(run func(ctx context.Context, orgID string) ([]Finding, error)) func(ctx context.Context) ([]Finding, error) {
		return func(ctx context.Context) ([]Finding, error) { return run(ctx, r.OrgID) }
	}
	checks = append(checks, check{name: "claims", run: org(d.claims)}, check{name: "restore", run: org(d.restore)}, check{name: "triggers", run: org(d.triggers)},
		check{name: "tokens", run: org(d.tokens)}, check{name: "credentials", run: org(d.expiring)}, check{name: "quotas", run: org(d.quotas)})
	if r.CallProviders {
		checks = append(checks, check{name: "providers", run: org(d.providers)})
	}
	checks = append(checks, check{name: "nodes", run: org(d.nodes), limit: 2 * nodePatience})
	return each(ctx, checks)
}

// each makes checks at the same time.
func each(ctx context.Context, checks []check) (out []Finding) {
	found := make([][]Finding, len(checks))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.limit, patience))
			defer cancel()
			var err error
			if found[i], err = c.run(ctx); err != nil {
				found[i] = append(found[i], Finding{c.name, Fail, "cannot be checked: " + shown(err), "see the hub's log"})
			}
		})
	}
	wg.Wait()
	for _, f := range found {
		out = append(out, f...)
	}
	return out
}

// shown returns the part of an error that may be shown.
func shown(err error) string {
	if e := fault.As(err); e != nil && e.Kind != fault.Internal {
		return e.Error()
	}
	return "internal error"
}

// facts are what the database says of itself; see doctor_database.
type facts struct {
	Facts struct {
		Version        string    `json:"version"`
		VersionNum     int       `json:"version_num"`
		Now            time.Time `json:"now"`
		MaxConnections int       `json:"max_connections"`
		Connections    int       `json:"connections"`
		Bytes          int64     `json:"bytes"`
		Fsync          string    `json:"fsync"`
		FullPageWrites string    `json:"full_page_writes"`
		Autovacuum     string    `json:"autovacuum"`
	} `json:"facts"`
	Long []struct {
		PID         int    `json:"pid"`
		Application string `json:"application"`
		State       string `json:"state"`
		Seconds     int64  `json:"seconds"`
	} `json:"long"`
	Bloated []struct {
		Name              string
		Live, Dead, Bytes int64
	} `json:"bloated"`
}

const (
	minPostgres = 15
	// maxSkew is how far the clocks of the database and a hub may differ: leases last
	// seconds.
	maxSkew = time.Second
	// nearlyFull is the share of connections from which on new ones may be refused soon.
	nearlyFull = 0.8
)

func (d *Doctor) database(ctx context.Context) (out []Finding, err error) {
	begun := time.Now()
	raw, err := d.cfg.Store.DatabaseFacts(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	var f facts
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("read the database's facts: %w", err)
	}
	state, fix := OK, ""
	if f.Facts.VersionNum/10_000 < minPostgres {
		state, fix = Fail, fmt.Sprintf("use PostgreSQL %d or later", minPostgres)
	}
	out = append(out, Finding{"database", state, fmt.Sprintf("PostgreSQL %s, %s, answered in %s", f.Facts.Version, bytesize.Format(f.Facts.Bytes), took.Round(time.Millisecond)), fix})

	skew := f.Facts.Now.Sub(begun.Add(took / 2)).Round(time.Millisecond)
	clock := Finding{"database clock", OK, fmt.Sprintf("differs by %s from this hub's", skew.Abs()), ""}
	if skew.Abs() > maxSkew+took {
		clock.State, clock.Fix = Warn, "synchronise both machines' clocks, with chrony or systemd-timesyncd"
	}
	out = append(out, clock)

	durable := Finding{"database durability", OK, "fsync and full_page_writes are on", ""}
	if f.Facts.Fsync != "on" || f.Facts.FullPageWrites != "on" {
		durable.State, durable.Evidence = Fail, fmt.Sprintf("fsync is %s, full_page_writes is %s: a crash of the machine may lose what was committed", f.Facts.Fsync, f.Facts.FullPageWrites)
		durable.Fix = "set both to on in postgresql.conf, and restart PostgreSQL"
	}
	out = append(out, durable)

	pool := d.cfg.Store.Pool()
	connections := Finding{"database connections", OK, fmt.Sprintf("%d of %d of the server; %d of %d of this hub in use", f.Facts.Connections, f.Facts.MaxConnections, pool.AcquiredConns(), pool.MaxConns()), ""}
	switch {
	case float64(f.Facts.Connections) > nearlyFull*float64(f.Facts.MaxConnections):
		connections.State, connections.Fix = Warn, "raise max_connections, or lower pool_max_conns in the hubs' --database-url"
	case pool.AcquiredConns() == pool.MaxConns():
		connections.State, connections.Fix = Warn, "raise pool_max_conns in --database-url, or start another hub"
	}
	out = append(out, connections)

	long := Finding{"long transactions", OK, "none is open for more than five minutes", ""}
	for _, t := range f.Long {
		long.State = Warn
		long.Evidence = fmt.Sprintf("process %d (%s, %s) has one open for %s: nothing can be cleaned up meanwhile", t.PID, t.Application, t.State, time.Duration(t.Seconds)*time.Second)
		long.Fix = fmt.Sprintf("end what began it, or: SELECT pg_terminate_backend(%d)", t.PID)
		break
	}
	out = append(out, long)

	bloat := Finding{"dead rows", OK, "no table has more than live ones; autovacuum is " + f.Facts.Autovacuum, ""}
	if len(f.Bloated) > 0 {
		b := f.Bloated[0]
		bloat = Finding{"dead rows", Warn, fmt.Sprintf("table %s has %d dead rows and %d live ones, %s", b.Name, b.Dead, b.Live, bytesize.Format(b.Bytes)), "VACUUM " + b.Name + "; and check that autovacuum runs"}
	} else if f.Facts.Autovacuum != "on" {
		bloat.State, bloat.Fix = Warn, "set autovacuum to on in postgresql.conf"
	}
	return append(out, bloat), nil
}

func (d *Doctor) migrations(ctx context.Context) ([]Finding, error) {
	if err := d.cfg.Store.Current(ctx); err != nil {
		return []Finding{{"migrations", Fail, err.Error(), "restart a hub of this release: it brings the schema up to date"}}, nil
	}
	version, err := d.cfg.Store.SchemaVersion(ctx)
	if err != nil {
		return nil, err
	}
	return []Finding{{"migrations", OK, fmt.Sprintf("schema %d", version), ""}}, nil
}

func (d *Doctor) bus(ctx context.Context) ([]Finding, error) {
	if err := d.cfg.Bus.Connected(); err != nil {
		return []Finding{{"bus", Warn, err.Error(), "start the NATS server, or check --nats-url; tasks go on by polling meanwhile"}}, nil
	}
	status, err := d.cfg.Bus.Status(ctx)
	if err != nil {
		return nil, err
	}
	f := Finding{"bus", OK, fmt.Sprintf("stream %s has %d wake-ups, the oldest %s old; %d consumers, %d unacknowledged", bus.Stream, status.Messages, status.Oldest.Round(time.Second), status.Consumers, status.Pending), ""}
	if status.Messages > 0 && status.Oldest > time.Minute {
		f.State, f.Fix = Warn, "no worker takes them: see the checks of workers and claims"
	}
	return []Finding{f}, nil
}

// staleReplica is how long a hub may say nothing before it counts as lost, in seconds.
const staleReplica = 20

func (d *Doctor) replicas(ctx context.Context) ([]Finding, error) {
	rows, err := d.cfg.Store.ReplicasSeen(ctx)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, r := range rows {
		f := Finding{"hub " + r.ID, OK, fmt.Sprintf("at %s, seen %d s ago", r.Address, r.Seconds), ""}
		if r.Seconds > staleReplica {
			f.State, f.Fix = Warn, "start it again, or wait until it is forgotten if it is gone for good"
		} else {
			d.replica(ctx, &f, r.ID, r.Address)
		}
		out = append(out, f)
	}
	return out, nil
}

// replica connects to a hub as the calls of its nodes do, and adds to the finding what it finds.
func (d *Doctor) replica(ctx context.Context, f *Finding, id, address string) {
	if err := reach(ctx, address); err != nil {
		f.State, f.Evidence = Warn, f.Evidence+"; its edge cannot be reached: "+err.Error()
		f.Fix = "let hubs reach each other's edge port, or name the address with --peer-address"
		return
	}
	until, err := d.cfg.Replica(ctx, id, address)
	if err != nil {
		f.State, f.Evidence = Warn, f.Evidence+"; what answers there is not this hub, or the two do not accept each other's certificates: "+err.Error()
		f.Fix = "compare the clocks of the two machines, and that --peer-address names this hub; nodes that it holds cannot be called from here meanwhile"
		return
	}
	f.Evidence += ", certificate valid until " + until.UTC().Format(time.DateTime) + " UTC"
	if time.Until(until) < time.Hour {
		f.State, f.Fix = Warn, "it renews its certificate itself: see its log for why it does not"
	}
}

func (d *Doctor) authority(context.Context) ([]Finding, error) {
	until := d.cfg.CAExpires()
	f := Finding{"certificate authority", OK, "valid until " + until.UTC().Format(time.DateOnly), ""}
	if time.Until(until) < 90*24*time.Hour {
		f.State, f.Fix = Warn, "plan its replacement: nodes enrolled under it must enrol again when it ends"
	}
	return []Finding{f}, nil
}

// secretFiles are files of the data folder that only the hub's user may read.
var secretFiles = []string{"keyset.json", "admin-token", "worker-token"}

func (d *Doctor) fileModes(context.Context) ([]Finding, error) {
	out := Finding{"file modes", OK, "secrets in " + d.cfg.DataDir + " are for the hub's user only", ""}
	for _, name := range secretFiles {
		path := filepath.Join(d.cfg.DataDir, name)
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			out = Finding{"file modes", Fail, fmt.Sprintf("%s has mode %04o: others can read it", path, info.Mode().Perm()), "chmod 600 " + path + "; and replace the secret, which others may have read"}
		}
	}
	return []Finding{out}, nil
}
