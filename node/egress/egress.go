// Package egress is the only way out of a node's jails: a forward proxy that
// allows connections that a jail's allow-list names and refuses all others,
// with the reason and the rule that would allow it.
//
// A jail's network consists of its own loopback interface. A connection to its
// port 3128, or to the port of a TCP forward, is passed by the jail's init over
// a socket that no command can reach. The proxy therefore knows which jail a
// connection comes from without trusting the jail's commands. A command names
// its exec in the user name of its proxy URL; that is for the record only and
// is no security boundary within a jail.
//
//   - A name is resolved only after it is allowed, because a DNS query carries data.
//   - Every address it resolves to is checked, and the checked address is dialled, so
//     that a name that resolves differently a moment later gains nothing.
//   - Each plain HTTP request is checked, including redirects, and goes to the host
//     in its URL, whatever its Host header says (RFC 9112, 3.2.2).
//   - A tunnel (CONNECT) is inspected: TLS must name the tunnel's host in its first
//     message, plain HTTP is checked as above, and any other protocol is allowed only
//     to the target of a TCP forward. Data inside TLS is not inspected:
//   - except for the hosts of credentials (Egress.bindings) and of rules by method and path
//     (Egress.Rule.http): there the proxy terminates TLS, decides each request, inserts the
//     credential or has the hub insert it, judges pushes of git, hides what servers issue
//     (package handle), and searches responses for the secret, WebSockets excepted.
//
// Connections end with the proxy's process; commands see that and may reconnect to the
// next one. Bytes sent and refusals are counted in memory.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config is what a Proxy works with.
type Config struct {
	// Resolver looks up the names that are allowed; nil for the machine's own.
	Resolver Resolver
	// MaxConns is how many connections one jail may have at once, MaxAll how many
	// all may; 0 for 1 024 and 8 192.
	MaxConns, MaxAll int
	// Patience is how long a client may take to send its request, a target to
	// accept the connection, and either to receive data; 0 means 20 seconds.
	Patience time.Duration
	// Idle is how long a connection may be open with nothing sent in either
	// direction; 0 means 15 minutes.
	Idle time.Duration
	// Special are the special addresses, such as 127.0.0.0/8 and
	// 169.254.169.254, that the node's operator lets jails reach if their rules
	// name them; empty for none. Addresses of private networks need no such
	// permission.
	Special []netip.Prefix
	// Hub gives the keys of authorities and tokens; nil for a proxy that terminates no TLS.
	Hub Hub
	// Recorder stores the requests with credentials; nil for a proxy that inserts none.
	Recorder Recorder
	// MaxHeld and MaxAllHeld are how much the requests of a jail, and of all, may keep in
	// memory because it must be read before it is passed on, in bytes; 0 for 96 MiB and
	// 320 MiB.
	MaxHeld, MaxAllHeld int64
	// SpoolDir is the folder in which packs of git are kept while they are judged, in files
	// without names; empty for that of the machine.
	SpoolDir string
	// Log is where the proxy writes what it did by itself; nil for nowhere.
	Log hclog.Logger
}

const (
	defaultMaxConns = 1024
	defaultMaxAll   = 8192
	defaultPatience = 20 * time.Second
	defaultIdle     = 15 * time.Minute
	// maxHeader bounds the header of a request.
	maxHeader = 64 << 10
)

// Proxy serves the jails of a node. It is a lifecycle.Service: it serves from
// Start to Stop.
type Proxy struct {
	lifecycle.Runner

	cfg   Config
	slots chan struct{} // holds one for each connection of a jail's
	// pushing holds one for each push that is judged, and spool counts what is kept of them.
	pushing chan struct{}
	spool   *space
	memory  *space
	wg      sync.WaitGroup

	mu    sync.Mutex
	open  bool              // guarded by mu
	jails map[string]*jail  // guarded by mu
	cut   map[string]string // by jail: why nothing passes; guarded by mu
	uses  map[useKey]*use   // of the execs that have not ended; guarded by mu
}

var _ lifecycle.Service = (*Proxy)(nil)

// New creates a Proxy.
func New(cfg Config) *Proxy {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = defaultMaxConns
	}
	if cfg.MaxAll == 0 {
		cfg.MaxAll = defaultMaxAll
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Idle == 0 {
		cfg.Idle = defaultIdle
	}
	if cfg.MaxHeld == 0 {
		cfg.MaxHeld = maxHeld
	}
	if cfg.MaxAllHeld == 0 {
		cfg.MaxAllHeld = maxAllHeld
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.Hub == nil {
		cfg.Hub = noHub{}
	}
	return &Proxy{
		cfg: cfg, slots: make(chan struct{}, cfg.MaxAll), pushing: make(chan struct{}, maxAllPushing), spool: newSpace(maxAllSpooled), memory: newSpace(cfg.MaxAllHeld),
		jails: map[string]*jail{}, cut: map[string]string{}, uses: map[useKey]*use{},
	}
}

// Start begins to serve.
func (p *Proxy) Start(ctx context.Context) error {
	p.mu.Lock()
	p.open = true
	p.mu.Unlock()
	return p.Run(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		p.mu.Lock()
		p.open = false
		left := p.jails
		p.jails = map[string]*jail{}
		p.mu.Unlock()
		for _, j := range left {
			j.close()
		}
		p.wg.Wait()
		return nil
	})
}

// Serve takes the connections of a jail, until Leave, as its rules allow. The
// listener is the proxy's from then on, also with an error. A jail that was
// served before is served again.
func (p *Proxy) Serve(id string, l net.Listener, rules *nodev1.Egress) error {
	list, err := policyOf(rules)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	j := newJail(p, id, list)
	p.mu.Lock()
	if !p.open {
		p.mu.Unlock()
		return errors.Join(fmt.Errorf("serve the egress of jail %s: the proxy is stopped", id), l.Close())
	}
	before := p.jails[id]
	p.jails[id] = j
	p.wg.Go(func() { j.serve(l) })
	p.mu.Unlock()
	if before != nil {
		before.close()
	}
	return nil
}

// Change gives a jail other rules, and ends the connections that they do not
// allow. A jail that is not served has none.
func (p *Proxy) Change(id string, rules *nodev1.Egress) error {
	list, err := policyOf(rules)
	if err != nil {
		return err
	}
	if j := p.jail(id); j != nil {
		j.change(list)
	}
	return nil
}

// Cut ends every connection of a jail, and refuses new ones until Resume.
func (p *Proxy) Cut(id, why string) {
	p.mu.Lock()
	p.cut[id] = why
	j := p.jails[id]
	p.mu.Unlock()
	if j != nil {
		j.endAll(errors.New(why))
	}
}

// Resume lets a jail's connections pass again.
func (p *Proxy) Resume(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cut, id)
}

// Leave stops serving a jail and ends its connections.
func (p *Proxy) Leave(id string) {
	p.mu.Lock()
	j := p.jails[id]
	delete(p.jails, id)
	delete(p.cut, id)
	p.mu.Unlock()
	if j != nil {
		j.close()
	}
}

func (p *Proxy) jail(id string) *jail {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jails[id]
}

// CutFor returns why nothing of a jail passes; empty when it may.
func (p *Proxy) CutFor(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut[id]
}

// listOf reads rules as they travel.
func listOf(rules *nodev1.Egress) (*allowlist.List, error) {
	out := &allowlist.List{}
	for _, r := range rules.GetRules() {
		rule := allowlist.Rule{Host: r.GetHost(), Methods: r.GetMethods(), Private: r.GetPrivate(), ReadOnly: r.GetReadOnly(), HTTP: r.GetHttp()}
		for _, port := range r.GetPorts() {
			if port > 65535 {
				return nil, fmt.Errorf("%d is not a port", port)
			}
			rule.Ports = append(rule.Ports, uint16(port))
		}
		out.Rules = append(out.Rules, rule)
	}
	for _, f := range rules.GetForwards() {
		if f.GetListen() > 65535 || f.GetPort() > 65535 {
			return nil, fmt.Errorf("%d or %d is not a port", f.GetListen(), f.GetPort())
		}
		out.Forwards = append(out.Forwards, allowlist.Forward{Listen: uint16(f.GetListen()), Host: f.GetHost(), Port: uint16(f.GetPort())})
	}
	return out, out.Check()
}

// Check says what is wrong with rules.
func Check(rules *nodev1.Egress) error {
	_, err := policyOf(rules)
	return err
}
