package egress

import (
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Limits of what is recorded about one exec.
const (
	maxHosts    = 100
	maxRefusals = 50
)

type useKey struct{ jail, exec string }

// use is what one exec sent out and was refused.
type use struct {
	exec string
	// tool is that whose call the exec makes, and secret the password that its requests
	// have; both empty for none.
	tool, secret string
	ended        atomic.Bool

	mu       sync.Mutex
	hosts    map[string]*counter
	refusals []*nodev1.EgressUse_Refusal
	more     int64
}

// counter counts what passes to one host. A nil one counts nothing.
type counter struct {
	requests, sent, received atomic.Int64
}

func (c *counter) passed(sent, received int) {
	if c != nil {
		c.sent.Add(int64(sent))
		c.received.Add(int64(received))
	}
}

// Begin notes that an exec is about to run in a jail. Asking again changes
// nothing.
func (p *Proxy) Begin(jail, exec string) { p.BeginTool(jail, exec, "", "") }

// BeginTool is Begin for an exec that makes the call of a tool: until it has ended, its
// requests with a secret as the password for the proxy may be those that rules by method and
// path leave to the tool.
func (p *Proxy) BeginTool(jail, exec, tool, secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := useKey{jail, exec}
	if p.uses[key] == nil {
		p.uses[key] = &use{exec: exec, tool: tool, secret: secret, hosts: map[string]*counter{}}
	}
}

// End returns what an exec sent out, which has ended; nil for nothing.
func (p *Proxy) End(jail, exec string) *nodev1.EgressUse {
	p.mu.Lock()
	u := p.uses[useKey{jail, exec}]
	delete(p.uses, useKey{jail, exec})
	p.mu.Unlock()
	if u == nil {
		return nil
	}
	u.ended.Store(true)
	return u.proto()
}

func (u *use) proto() *nodev1.EgressUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.hosts) == 0 && len(u.refusals) == 0 {
		return nil
	}
	out := &nodev1.EgressUse{Refusals: u.refusals, More: u.more}
	for _, host := range slices.Sorted(maps.Keys(u.hosts)) {
		c := u.hosts[host]
		out.Hosts = append(out.Hosts, &nodev1.EgressUse_Host{
			Host: host, Requests: c.requests.Load(), SentBytes: c.sent.Load(), ReceivedBytes: c.received.Load(),
		})
	}
	return out
}

// asker returns who asked for a connection with credentials for the proxy: the exec that they
// name, or, where they name none, all that run in the jail.
func (p *Proxy) asker(jail, credentials string) (out asker) {
	exec, password := execOf(credentials)
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.uses[useKey{jail, exec}]; u != nil {
		proven := u.secret != "" && subtle.ConstantTimeCompare([]byte(u.secret), []byte(password)) == 1
		return asker{uses: []*use{u}, proven: proven}
	}
	for key, u := range p.uses {
		if key.jail == jail {
			out.uses = append(out.uses, u)
		}
	}
	return out
}

// asker is who asked for a connection. What several may have asked for is
// refused to each, and counted to none.
type asker struct {
	uses []*use
	// proven says that it has the secret of the exec that it names.
	proven bool
}

// exec returns the exec's id; empty if several may have asked.
func (a asker) exec() string {
	if len(a.uses) != 1 {
		return ""
	}
	return a.uses[0].exec
}

// tool returns the tool whose call the asker proved to be, as long as that runs; empty for none.
func (a asker) tool() string {
	if !a.proven || a.uses[0].ended.Load() {
		return ""
	}
	return a.uses[0].tool
}

// counter begins a request to a host.
func (a asker) counter(t allowlist.Target) *counter {
	if len(a.uses) != 1 {
		return nil
	}
	u := a.uses[0]
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.hosts[t.String()]
	if c == nil {
		if len(u.hosts) >= maxHosts {
			u.more++
			return nil
		}
		c = &counter{}
		u.hosts[t.String()] = c
	}
	c.requests.Add(1)
	return c
}

// refused notes a refusal.
func (a asker) refused(host, method string, why *allowlist.Refusal) {
	for _, u := range a.uses {
		u.refuse(&nodev1.EgressUse_Refusal{
			Host: clean(host, 260), Method: clean(method, 32), Reason: clean(why.Reason, 600), Allow: clean(why.Allow, 400), Count: 1,
		})
	}
}

// clean shortens text that a command sent, so that it can be logged.
func clean(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD")
}

func (u *use) refuse(r *nodev1.EgressUse_Refusal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, have := range u.refusals {
		if have.GetHost() == r.GetHost() && have.GetMethod() == r.GetMethod() && have.GetReason() == r.GetReason() {
			have.Count++
			return
		}
	}
	if len(u.refusals) >= maxRefusals {
		u.more++
		return
	}
	u.refusals = append(u.refusals, r)
}
