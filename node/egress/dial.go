package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/netaddr"
)

const (
	// maxAddrs is how many of a name's addresses are tried.
	maxAddrs = 8
	// leastTry is how long the first of several is tried at least.
	leastTry = 2 * time.Second
)

// errGone is returned for a jail that is not served any more.
var errGone = errors.New("the jail has ended")

// dial connects to a target that is allowed, by an address that is. judge says
// whether rules that come into force later still allow it.
func (j *jail) dial(ctx context.Context, t allowlist.Target, judge func(*policy) *allowlist.Refusal) (*conn, error) {
	return j.dialBy(ctx, t, func(p *policy, addr netip.Addr, mine bool) *allowlist.Refusal {
		if refusal := judge(p); refusal != nil {
			return refusal
		}
		if refusal := p.hosts.Address(t, addr, mine); refusal != nil {
			return refusal
		}
		return j.p.special(addr)
	})
}

// special refuses an address of a special kind that the node's operator does
// not let jails reach, whatever rule names it.
func (p *Proxy) special(addr netip.Addr) *allowlist.Refusal {
	kind := netaddr.Special(addr)
	if kind == nil || kind.Private || slices.ContainsFunc(p.cfg.Special, func(block netip.Prefix) bool { return block.Contains(addr.Unmap()) }) {
		return nil
	}
	return &allowlist.Refusal{Reason: fmt.Sprintf("%s is %s, which this node's operator lets no jail reach (special-addresses in node.yaml)", addr, kind.Word)}
}

// dialBy is dial, with a judge of each address, too.
func (j *jail) dialBy(ctx context.Context, t allowlist.Target, judge func(p *policy, addr netip.Addr, mine bool) *allowlist.Refusal) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, j.p.cfg.Patience)
	defer cancel()
	addrs, err := j.p.lookUp(ctx, t)
	if err != nil {
		return nil, err
	}
	var refusal *allowlist.Refusal
	var failure error
	for i, addr := range addrs {
		mine, err := own.has(addr)
		if err != nil {
			return nil, err
		}
		all := func(p *policy) *allowlist.Refusal { return judge(p, addr, mine) }
		if refusal = all(j.policy()); refusal != nil {
			continue
		}
		c, err := j.dialAddr(ctx, netip.AddrPortFrom(addr, t.Port), len(addrs)-i, all)
		if err == nil {
			return c, nil
		}
		failure = err
	}
	if failure != nil {
		return nil, failure
	}
	return nil, refusal
}

// dialAddr connects to an address, leaving time for those that come after it.
func (j *jail) dialAddr(ctx context.Context, to netip.AddrPort, left int, judge func(*policy) *allowlist.Refusal) (*conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(leastTry, time.Until(end)/time.Duration(left)))
		defer cancel()
	}
	var d net.Dialer
	got, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	c := j.keep(&conn{Conn: got, judge: judge})
	if c == nil {
		return nil, errors.Join(errGone, got.Close())
	}
	// The rules may have changed, or the jail may have been cut off, since they
	// were checked. From here on, a change of either finds the connection in
	// the list.
	if refusal := judge(j.policy()); refusal != nil {
		return nil, errors.Join(refusal, c.Close())
	}
	if why := j.p.CutFor(j.id); why != "" {
		return nil, errors.Join(errors.New(why), c.Close())
	}
	return c, nil
}

// lookUp returns the addresses to which a target resolves, at least one.
func (p *Proxy) lookUp(ctx context.Context, t allowlist.Target) ([]netip.Addr, error) {
	if t.Addr.IsValid() {
		return []netip.Addr{t.Addr}, nil
	}
	name := t.Host
	if strings.Contains(name, ".") {
		name += "." // as it is: not below the machine's own domain
	}
	found, err := p.cfg.Resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", t.Host, err)
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: t.Host, IsNotFound: true}
	}
	out := make([]netip.Addr, 0, min(len(found), maxAddrs))
	for _, addr := range found[:min(len(found), maxAddrs)] {
		out = append(out, addr.Unmap().WithZone(""))
	}
	return out, nil
}

// own is the list of this machine's addresses, shared by all proxies.
var own = &ownAddrs{}

// ownFor is how long the machine's addresses are taken to stay the same.
const ownFor = time.Second

type ownAddrs struct {
	mu    sync.Mutex
	addrs []netip.Addr // guarded by mu
	read  time.Time    // guarded by mu
}

func (o *ownAddrs) has(addr netip.Addr) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.read.IsZero() || time.Since(o.read) > ownFor {
		all, err := net.InterfaceAddrs()
		if err != nil {
			return false, fmt.Errorf("list the machine's addresses: %w", err)
		}
		o.addrs, o.read = nil, time.Now()
		for _, one := range all {
			if network, ok := one.(*net.IPNet); ok {
				if got, ok := netip.AddrFromSlice(network.IP); ok {
					o.addrs = append(o.addrs, got.Unmap())
				}
			}
		}
	}
	return slices.Contains(o.addrs, addr), nil
}
