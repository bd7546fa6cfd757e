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
	"strings"
	"syscall"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// special are the networks that are not of the public Internet (IANA's
// registries of special-purpose addresses, and multicast), and those that lead
// to IPv4 by another way.
var special = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")

// global is what is handed out of IPv6. All else of it is special.
var global = netip.MustParsePrefix("2000::/3")

// specialV6 are parts of global that are not public, or lead to IPv4.
var specialV6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

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
func (g Guard) allowed(a netip.Addr) bool { return within(a, g.Allow) }

func within(a netip.Addr, networks []netip.Prefix) bool {
	for _, p := range networks {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Check answers an error, which wraps ErrRefused, for an address that may not be
// dialled. What is not encrypted may go to allowed addresses only.
func (g Guard) Check(a netip.Addr, plain bool) error {
	a = a.Unmap().WithZone("")
	switch {
	case g.allowed(a):
		return nil
	case a.Is4() && within(a, special), a.Is6() && (!global.Contains(a) || within(a, specialV6)):
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
