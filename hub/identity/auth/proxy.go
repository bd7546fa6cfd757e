package auth

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// ParseNetworks reads networks, such as 10.20.0.0/16 or a single address; field
// names them in errors.
func ParseNetworks(field string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if addr, aerr := netip.ParseAddr(text); err != nil && aerr == nil && addr.Zone() == "" {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s has %q, which is no network", field, text).WithFix("use networks such as 10.20.0.0/16 or 2001:db8::/32")
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func within(addr netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// TrustProxies sets the client address of requests that arrive through a trusted proxy:
// the last X-Forwarded-For address that is not a proxy. The header is ignored for other
// peers.
func TrustProxies(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if within(AddressOf(r.RemoteAddr), proxies) {
			hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
			for _, hop := range slices.Backward(hops) {
				addr := AddressOf(strings.TrimSpace(hop))
				if !addr.IsValid() {
					break
				}
				r.RemoteAddr = net.JoinHostPort(addr.String(), "0")
				if !within(addr, proxies) {
					break
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}
