package allowlist

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Target is where a connection goes.
type Target struct {
	// Host is a name, or the text of Addr; lower case, without a dot at the end.
	Host string
	// Addr is set when the host is given by its address.
	Addr netip.Addr
	Port uint16
}

// String is host:port.
func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// ports answers the port as a rule has it: none where it is a usual one.
func (t Target) ports() []uint16 {
	if slices.Contains(webPorts, t.Port) {
		return nil
	}
	return []uint16{t.Port}
}

// ParseTarget reads host:port, or a host alone where there is a usual port.
func ParseTarget(text string, usual uint16) (Target, error) {
	host, port := text, usual
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := parsePort(p)
		if err != nil {
			return Target{}, err
		}
		host, port = h, n
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return Target{}, fmt.Errorf("%.100q is no host", text)
		}
	}
	if port == 0 {
		return Target{}, fmt.Errorf("%.100q names no port", text)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return Target{}, errors.New("an address with a zone is of this machine's own links")
		}
		addr = addr.Unmap()
		return Target{Host: addr.String(), Addr: addr, Port: port}, nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if err := checkName(host); err != nil {
		return Target{}, err
	}
	return Target{Host: host, Port: port}, nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '+' {
		return 0, fmt.Errorf("%.20q is no port: it must be a number from 1 to 65535", text)
	}
	return uint16(n), nil
}

// checkName refuses what is no name of a host. One whose last part is a number
// is none: resolvers take it for an address, each in its own way.
func checkName(name string) error {
	if name == "" || len(name) > 253 {
		return fmt.Errorf("%.100q is no name of a host", name)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%.100q is no name of a host", name)
		}
		last = label
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return fmt.Errorf("%.100q is neither a name nor an address as it is usually written", name)
	}
	return nil
}

// kind is a block of addresses that are not of the wide world.
type kind struct {
	block netip.Prefix
	word  string
	// private says that a rule may name its addresses by a name.
	private bool
}

// holds says that all of a network is of the kind.
func (k *kind) holds(network netip.Prefix) bool {
	return k.block.Bits() <= network.Bits() && k.block.Contains(network.Addr())
}

// kinds are of IANA's registries of special-purpose addresses (RFC 6890 and
// what followed), the narrower before the wider.
var kinds = []kind{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this machine", false},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address", true},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address of a provider's own network", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", false},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address", true},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation", false},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address", true},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for measurements", false},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation", false},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation", false},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address", false},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address", false},
	{netip.MustParsePrefix("::/128"), "an address of this machine", false},
	{netip.MustParsePrefix("::1/128"), "a loopback address", false},
	{netip.MustParsePrefix("64:ff9b::/96"), "an IPv4 address in disguise", false},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in disguise", false},
	{netip.MustParsePrefix("fc00::/7"), "a private address", true},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address", false},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address", false},
	{netip.MustParsePrefix("2001::/23"), "a reserved address", false},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation", false},
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address in disguise", false},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation", false},
}

// wide is what of IPv6 is given out to the world (RFC 4291).
var wide = netip.MustParsePrefix("2000::/3")

// ownKind is of one address, which only the address itself names.
func ownKind(addr netip.Addr) *kind {
	return &kind{netip.PrefixFrom(addr, addr.BitLen()), "an address of the node itself", true}
}

// special answers the kind of an address that is not of the wide world; nil for
// one that is.
func special(addr netip.Addr) *kind {
	for i := range kinds {
		if kinds[i].block.Contains(addr) {
			return &kinds[i]
		}
	}
	if addr.Is6() && !wide.Contains(addr) {
		return &kind{netip.PrefixFrom(addr, addr.BitLen()), "a reserved address", false}
	}
	return nil
}
