package allowlist

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

// Bounds of a list.
const (
	MaxRules    = 256
	MaxForwards = 16
	maxPorts    = 16
	// MaxHTTP is how many rules by method and path a rule may have.
	MaxHTTP = 64
)

// ProxyPort is the port of the jail that the proxy is on.
const ProxyPort = 3128

// Methods are those that a rule may name.
var Methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}

// Parse reads a rule as text: a host, and after a colon its ports, with commas.
// An IPv6 address or network with ports is in brackets.
func Parse(text string) (Rule, error) {
	if scheme, _, ok := strings.Cut(text, "://"); ok {
		return Rule{}, fmt.Errorf("write the host alone, without %.20q and without a path", scheme+"://")
	}
	host, ports := text, ""
	if inner, ok := strings.CutPrefix(text, "["); ok {
		var rest string
		if host, rest, ok = strings.Cut(inner, "]"); !ok || rest != "" && rest[0] != ':' {
			return Rule{}, errors.New("the bracket of an IPv6 address is not closed, as in [2001:db8::1]:443")
		}
		if ports = strings.TrimPrefix(rest, ":"); rest != "" && ports == "" {
			return Rule{}, errors.New("the port after the colon is missing")
		}
	} else if strings.Count(text, ":") == 1 {
		if host, ports, _ = strings.Cut(text, ":"); ports == "" {
			return Rule{}, errors.New("the port after the colon is missing")
		}
	}
	r := Rule{Host: strings.ToLower(host)}
	if ports != "" {
		for word := range strings.SplitSeq(ports, ",") {
			port, err := parsePort(word)
			if err != nil {
				return Rule{}, err
			}
			r.Ports = append(r.Ports, port)
		}
	}
	return r, r.Check()
}

// Check says what is wrong with a rule, and writes its address in the usual way.
func (r *Rule) Check() error {
	if err := r.checkHost(); err != nil {
		return err
	}
	if len(r.Ports) > maxPorts {
		return fmt.Errorf("it names %d ports: at most %d are allowed", len(r.Ports), maxPorts)
	}
	for i, port := range r.Ports {
		if port == 0 || slices.Contains(r.Ports[:i], port) {
			return fmt.Errorf("port %d is repeated or out of range", port)
		}
	}
	for i, method := range r.Methods {
		if !slices.Contains(Methods, method) {
			return fmt.Errorf("%.20q is not a method: use some of %s", method, strings.Join(Methods, ", "))
		}
		if slices.Contains(r.Methods[:i], method) {
			return fmt.Errorf("the method %s is named twice", method)
		}
		if r.ReadOnly && !Safe(method) {
			return fmt.Errorf("the method %s is not allowed in a read-only rule", method)
		}
	}
	if len(r.HTTP) > 0 {
		if err := r.checkHTTP(); err != nil {
			return err
		}
	}
	if _, ok := r.network(); ok && r.Private {
		return errors.New("private has no effect on an address: leave it out")
	}
	if r.Host == "*" && r.Private {
		return errors.New("every name cannot be private: name the hosts")
	}
	return nil
}

// checkHTTP says what is wrong with a rule's HTTP.
func (r *Rule) checkHTTP() error {
	switch {
	case strings.ContainsAny(r.Host, "*/"):
		return fmt.Errorf("http needs one host, and %s is several: write the name or the address", r.Host)
	case len(r.Methods) > 0:
		return errors.New("methods and http are both given: write the methods into http")
	case len(r.HTTP) > MaxHTTP:
		return fmt.Errorf("http has %d rules: at most %d are allowed", len(r.HTTP), MaxHTTP)
	}
	for _, text := range r.HTTP {
		one, err := httprule.ParseRule(text)
		if err != nil {
			return fmt.Errorf("http has %.100q: %w", text, err)
		}
		if r.ReadOnly && one.Effect != httprule.Deny && len(SafeOf(one.Methods)) < len(one.Methods) {
			return fmt.Errorf("http has %.100q, whose methods change something, and the rule is read_only: leave one of them out", text)
		}
	}
	return nil
}

// CheckHTTP says what is wrong with a rule by method and path, as package httprule reads it.
func CheckHTTP(text string) error {
	_, err := httprule.ParseRule(text)
	return err
}

func (r *Rule) checkHost() error {
	if addr, err := netip.ParseAddr(r.Host); err == nil {
		if addr.Zone() != "" {
			return errors.New("an address must have no zone")
		}
		r.Host = addr.Unmap().String()
		return nil
	}
	if strings.Contains(r.Host, "/") {
		network, err := netip.ParsePrefix(r.Host)
		if err != nil || network.Addr().Is4In6() {
			return fmt.Errorf("%.100q is not a network: write it like 10.1.0.0/16", r.Host)
		}
		if network != network.Masked() {
			return fmt.Errorf("%s is an address inside a network: write %s", r.Host, network.Masked())
		}
		r.Host = network.String()
		return nil
	}
	if r.Host == "*" {
		return nil
	}
	name := strings.TrimPrefix(r.Host, "*.")
	if strings.Contains(name, "*") {
		return fmt.Errorf("%.100q has a * that does not stand for all that is before the first dot: write *.example.com", r.Host)
	}
	if err := checkName(name); err != nil {
		return fmt.Errorf("%w: write a host such as api.example.com, *.example.com, 10.1.2.3 or 10.1.0.0/16", err)
	}
	return nil
}

// ParseForward reads where a forward leads to, as host:port.
func ParseForward(text string) (Forward, error) {
	t, err := ParseTarget(text, 0)
	if err != nil {
		return Forward{}, fmt.Errorf("%w: write a host with its port, such as db.example.com:5432", err)
	}
	return Forward{Listen: t.Port, Host: t.Host, Port: t.Port}, nil
}

// Check says what is wrong with a list as a whole.
func (l *List) Check() error {
	if len(l.Rules) > MaxRules {
		return fmt.Errorf("there are %d rules: at most %d are allowed", len(l.Rules), MaxRules)
	}
	for i := range l.Rules {
		if err := l.Rules[i].Check(); err != nil {
			return err
		}
	}
	if len(l.Forwards) > MaxForwards {
		return fmt.Errorf("there are %d TCP forwards: at most %d are allowed", len(l.Forwards), MaxForwards)
	}
	for i, f := range l.Forwards {
		if f.Listen < 1024 || f.Listen == ProxyPort {
			return fmt.Errorf("a TCP forward listens on port %d: use one from 1024 on, other than %d, which is the proxy's", f.Listen, ProxyPort)
		}
		if slices.ContainsFunc(l.Forwards[:i], func(o Forward) bool { return o.Listen == f.Listen }) {
			return fmt.Errorf("two TCP forwards listen on port %d: use different ports", f.Listen)
		}
		if t, err := ParseTarget(Target{Host: f.Host, Port: f.Port}.String(), 0); err != nil || t.Host != f.Host {
			return fmt.Errorf("the target %.100q of a TCP forward is not a host", f.Host)
		}
	}
	return nil
}
