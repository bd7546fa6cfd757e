package doctor

import (
	"context"
	"errors"
	"net"
	"strings"
)

// egress checks whether jails can reach anything outside of the machine's own networks: a
// route, and a name server that answers. Whether a firewall lets single hosts through is known
// only when they are tried.
func egress(ctx context.Context, c Config) Finding {
	if !routed(c.text("/proc/net/route")) && !routed6(c.text("/proc/net/ipv6_route")) {
		return warn("this machine has no default route", "add one if agents are to reach hosts outside of its own networks: ip route add default via ADDRESS")
	}
	server := ""
	for line := range strings.Lines(c.text("/etc/resolv.conf")) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			server = words[1]
			break
		}
	}
	if server == "" {
		return warn("there is no name server in /etc/resolv.conf", "add one if agents are to reach hosts by their names: nameserver ADDRESS")
	}
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server, c.dnsPort()))
	}}
	// Any answer will do, also that there is no such name.
	_, err := resolver.LookupHost(ctx, "deckhand.invalid.")
	var dns *net.DNSError
	if err != nil && (!errors.As(err, &dns) || !dns.IsNotFound) {
		return warn("the name server "+server+" does not answer: "+err.Error(), "look at /etc/resolv.conf, and at the firewall for port 53: without names, agents reach hosts by their addresses only")
	}
	return ok("there is a default route, and the name server " + server + " answers")
}

// dnsPort is where name servers listen; another one in tests.
func (c Config) dnsPort() string {
	if c.DNSPort != "" {
		return c.DNSPort
	}
	return "53"
}

// routed reports whether /proc/net/route has a default route.
func routed(table string) bool {
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 7 && words[1] == "00000000" && words[7] == "00000000" {
			return true
		}
	}
	return false
}

// routed6 reports whether /proc/net/ipv6_route has a default route that is not the one by
// which the kernel refuses (on lo).
func routed6(table string) bool {
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 9 && strings.Trim(words[0], "0") == "" && words[1] == "00" && words[9] != "lo" {
			return true
		}
	}
	return false
}
