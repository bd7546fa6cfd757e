// Package guard keeps connections that others ask for out of the networks that
// are nobody's business of theirs: an address is looked at when it is resolved
// already and about to be dialled, so that no name, no second answer of a
// resolver and no redirect leads elsewhere.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/netaddr"
)

// ErrRefused is the cause of every refusal.
var ErrRefused = errors.New("refused")

// Guard says what may be dialled: public addresses, and those of Allow.
type Guard struct {
	Allow []netip.Prefix
	// Resolver is nil for the system's.
	Resolver *net.Resolver
}

// ParseAllow reads networks, such as 10.20.0.0/16 or a single address, separated
// by commas.
func ParseAllow(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fault.New(fault.Invalid, "notify-allow has %q, which is no network", text).WithFix("use networks such as 10.20.0.0/16, separated by commas")
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// allowed says whether the operator has named the address.
func (g Guard) allowed(a netip.Addr) bool {
	return slices.ContainsFunc(g.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Check answers an error, which wraps ErrRefused, for an address that may not be
// dialled. What is not encrypted may go to allowed addresses only.
func (g Guard) Check(a netip.Addr, plain bool) error {
	a = a.Unmap().WithZone("")
	switch {
	case g.allowed(a):
		return nil
	case netaddr.Special(a) != nil:
		return fmt.Errorf("%w: %s is not a public address: an operator may allow it with --notify-allow", ErrRefused, a)
	case plain:
		return fmt.Errorf("%w: what is sent to %s would not be encrypted: use TLS, or an operator allows it with --notify-allow", ErrRefused, a)
	}
	return nil
}

// Dialer answers a dialer that looks at each address before it connects. plain
// says that what is sent is not encrypted.
func (g Guard) Dialer(plain bool) *net.Dialer {
	return &net.Dialer{
		Timeout: 10 * time.Second, Resolver: g.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			if network != "tcp4" && network != "tcp6" {
				return fmt.Errorf("%w: network %s", ErrRefused, network)
			}
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: address %q", ErrRefused, address)
			}
			return g.Check(at.Addr(), plain)
		},
	}
}
