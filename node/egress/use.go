package egress

import (
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
func (p *Proxy) Begin(jail, exec string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := useKey{jail, exec}
	if p.uses[key] == nil {
		p.uses[key] = &use{exec: exec, hosts: map[string]*counter{}}
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

// users returns whose a connection is: the exec that it says, or, where it says
// none, all that run in its jail.
func (p *Proxy) users(jail, exec string) (out []*use) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.uses[useKey{jail, exec}]; u != nil {
		return []*use{u}
	}
	for key, u := range p.uses {
		if key.jail == jail {
			out = append(out, u)
		}
	}
	return out
}

// asker is who asked for a connection. What several may have asked for is
// refused to each, and counted to none.
type asker []*use

// exec returns the exec's id; empty if several may have asked.
func (a asker) exec() string {
	if len(a) != 1 {
		return ""
	}
	return a[0].exec
}

// counter begins a request to a host.
func (a asker) counter(t allowlist.Target) *counter {
	if len(a) != 1 {
		return nil
	}
	u := a[0]
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
	for _, u := range a {
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
