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
	// Addr is set if the host is an IP address.
	Addr netip.Addr
	Port uint16
}

// String is host:port.
func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// ports returns the port as a rule has it: none where it is a usual one.
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
			return Target{}, fmt.Errorf("%.100q is not a host", text)
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
		return 0, fmt.Errorf("%.20q is not a port: it must be a number from 1 to 65535", text)
	}
	return uint16(n), nil
}

// checkName rejects an invalid host name. A name whose last part is a number is
// invalid: resolvers treat it as an address, each in its own way.
func checkName(name string) error {
	if name == "" || len(name) > 253 {
		return fmt.Errorf("%.100q is not a host name", name)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%.100q is not a host name", name)
		}
		last = label
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return fmt.Errorf("%.100q is neither a name nor an address as it is usually written", name)
	}
	return nil
}
