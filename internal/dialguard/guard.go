// Package dialguard prevents outgoing connections whose destination a user
// chose, such as webhooks, from reaching internal networks. A Guard checks the
// resolved address immediately before it is dialled, so that neither a DNS
// name, nor a second DNS answer, nor a redirect can lead to an internal
// address. A refused connection fails with ErrRefused.
package dialguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	// Flag is how an operator allows more, for refusals: --notify-allow.
	Flag string
	// Resolver is nil for the system's.
	Resolver *net.Resolver
}

// ParseAllow reads the networks that a flag lists, such as 10.20.0.0/16 or a
// single address, separated by commas.
func ParseAllow(flag, list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fault.New(fault.Invalid, "%s: %q is not a network", flag, text).WithFix("use networks such as 10.20.0.0/16, separated by commas")
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// allowed reports whether the operator has named the address.
func (g Guard) allowed(a netip.Addr) bool {
	return slices.ContainsFunc(g.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Check returns an error, which wraps ErrRefused, for an address that may not be
// dialled. What is not encrypted may go to allowed addresses only.
func (g Guard) Check(a netip.Addr, plain bool) error {
	a = a.Unmap().WithZone("")
	switch {
	case g.allowed(a):
		return nil
	case netaddr.Special(a) != nil:
		return fmt.Errorf("%w: %s is not a public address: an operator may allow it with %s", ErrRefused, a, g.Flag)
	case plain:
		return fmt.Errorf("%w: data sent to %s would not be encrypted: use TLS, or ask an operator to allow it with %s", ErrRefused, a, g.Flag)
	}
	return nil
}

// Dialer returns a dialer that looks at each address before it connects. plain
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

// Transport returns what sends HTTP where the guard lets it, through no proxy:
// what is encrypted to public addresses, and plain text to allowed ones only. set
// makes changes to it.
func (g Guard) Transport(set func(*http.Transport)) *Transport {
	one := func(plain bool) *http.Transport {
		t := &http.Transport{
			DialContext: g.Dialer(plain).DialContext, ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
		}
		set(t)
		return t
	}
	return &Transport{encrypted: one(false), plain: one(true)}
}

// Transport is a guarded http.RoundTripper.
type Transport struct{ encrypted, plain *http.Transport }

// RoundTrip sends one request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == "https" {
		return t.encrypted.RoundTrip(req)
	}
	return t.plain.RoundTrip(req)
}

// CloseIdleConnections closes those that are in no use.
func (t *Transport) CloseIdleConnections() {
	t.encrypted.CloseIdleConnections()
	t.plain.CloseIdleConnections()
}
