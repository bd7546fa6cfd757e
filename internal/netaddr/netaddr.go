// Package netaddr classifies IP addresses as public or special (private,
// loopback, link-local and so on). Code that connects to a host that a user
// chose uses it to refuse addresses in the machine's own networks.
package netaddr

import "net/netip"

// Kind is a block of addresses that are not public.
type Kind struct {
	Block netip.Prefix
	// Word describes such an address: "a private address".
	Word string
	// Private reports that the addresses belong to networks that people run for
	// themselves, and that a user may mean one when naming a host there.
	Private bool
}

// Holds reports whether the whole network is of this kind.
func (k *Kind) Holds(network netip.Prefix) bool {
	return k.Block.Bits() <= network.Bits() && k.Block.Contains(network.Addr())
}

// kinds come from IANA's registries of special-purpose addresses (RFC 6890 and
// its successors), the narrower before the wider.
var kinds = []Kind{
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

// wide is the part of IPv6 that is assigned as global unicast (RFC 4291).
var wide = netip.MustParsePrefix("2000::/3")

// Special returns the kind of an address that is not public, or nil if it is
// public. An IPv4 address written as IPv6 is treated as IPv4.
func Special(addr netip.Addr) *Kind {
	addr = addr.Unmap()
	for i := range kinds {
		if kinds[i].Block.Contains(addr) {
			return &kinds[i]
		}
	}
	if addr.Is6() && !wide.Contains(addr) {
		return One(addr, "a reserved address", false)
	}
	return nil
}

// One is the kind of a single address.
func One(addr netip.Addr, word string, private bool) *Kind {
	return &Kind{netip.PrefixFrom(addr, addr.BitLen()), word, private}
}
