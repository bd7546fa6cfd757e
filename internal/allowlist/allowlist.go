// Package allowlist parses the egress rules of a persona and decides whether a
// connection is allowed. It is used by the hub, where a persona is applied, and
// by the node's proxy, so that both interpret a rule in the same way. A
// connection that no rule allows is refused, and the refusal names the rule
// that would allow it.
//
// Rules and connections name hosts. A name must be resolved only after it is
// allowed, because a DNS query by itself can carry data out. The resolved
// address must then be checked as well (Address), because a public name may
// resolve to an address in the machine's own network, and to a different one
// each time.
package allowlist

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/netaddr"
)

// Rule allows connections to a host.
type Rule struct {
	// Host is a name (api.example.com), all names below one (*.example.com, not
	// example.com itself), every name (*), an IP address or a network in CIDR
	// notation. Lower case.
	Host string
	// Ports are those that it allows; none means 80 and 443.
	Ports []uint16
	// Methods are the HTTP methods that it allows; none means all. A rule with
	// methods allows nothing that they cannot be seen of, such as TLS.
	Methods []string
	// Private allows the name to resolve to addresses of private networks.
	Private bool
	// ReadOnly declares that nothing can be changed there. Inside TLS, that is
	// the operator's assertion; otherwise only GET, HEAD and OPTIONS are
	// allowed.
	ReadOnly bool
	// HTTP are rules by method and path, such as "deny DELETE /repos/**". A rule with
	// them allows nothing by itself: the proxy that sees the requests decides each of them.
	HTTP []string
}

// Forward gives the jail a port that leads to a host outside of it, whatever is
// spoken there. The target is named with it, so that it may be of a private
// network.
type Forward struct {
	// Listen is the port on the jail's 127.0.0.1.
	Listen uint16
	// Host is a name or an IP address.
	Host string
	Port uint16
}

// List is all that is allowed. The zero value allows nothing. It is not changed
// once it is in use.
type List struct {
	Rules    []Rule
	Forwards []Forward
}

// Refusal says why something is not allowed.
type Refusal struct {
	// Reason is for a person, and for the agent.
	Reason string
	// Allow is what a persona would have to say for it to be allowed; empty where
	// no rule should.
	Allow string
}

// Error is the reason with what would allow it.
func (r *Refusal) Error() string {
	if r.Allow == "" {
		return r.Reason
	}
	return r.Reason + "; a persona allows it with " + r.Allow
}

var (
	webPorts = []uint16{80, 443}
	// safeMethods change nothing (RFC 9110, section 9.2.1).
	safeMethods = []string{"GET", "HEAD", "OPTIONS"}
)

// Opaque is the method of what no method can be seen of.
const Opaque = ""

// Match refuses a connection to a target unless a rule allows it, or a forward
// leads there. method is that of an HTTP request, or Opaque.
func (l *List) Match(t Target, method string) *Refusal {
	if method == Opaque && l.Forwarded(t) {
		return nil
	}
	var named, ported bool // by some rule, but not with this port, or method
	for i := range l.Rules {
		r := &l.Rules[i]
		if !r.names(t) {
			continue
		}
		named = true
		if !slices.Contains(r.ports(), t.Port) {
			continue
		}
		ported = true
		if r.permits(method) {
			return nil
		}
	}
	switch {
	case ported && l.ByRequest(t):
		return &Refusal{Reason: fmt.Sprintf("the rules for %s decide by method and path, which were not seen", t)}
	case ported && method == Opaque:
		return &Refusal{
			Reason: fmt.Sprintf("the rules for %s allow some methods only, which cannot be seen inside of TLS", t),
			Allow:  suggest(Rule{Host: t.Host, Ports: t.ports()}),
		}
	case ported:
		out := &Refusal{Reason: fmt.Sprintf("the rules for %s do not allow the method %.20s", t, method)}
		if slices.Contains(Methods, method) {
			out.Allow = suggest(Rule{Host: t.Host, Ports: t.ports(), Methods: []string{method}})
		}
		return out
	case named:
		return &Refusal{
			Reason: fmt.Sprintf("the rules for %s do not allow port %d", t.Host, t.Port),
			Allow:  suggest(Rule{Host: t.Host, Ports: t.ports()}),
		}
	}
	return &Refusal{Reason: fmt.Sprintf("no rule allows %s", t), Allow: suggestion(t)}
}

// Reaches reports whether anything at all is allowed there: a tunnel may be opened,
// and what is in it is judged by Match.
func (l *List) Reaches(t Target) *Refusal {
	if slices.ContainsFunc(l.Rules, func(r Rule) bool { return r.Reaches(t) }) {
		return nil
	}
	return l.Match(t, Opaque)
}

// ByRequest reports whether a rule for a target decides by method and path.
func (l *List) ByRequest(t Target) bool {
	return slices.ContainsFunc(l.Rules, func(r Rule) bool { return len(r.HTTP) > 0 && r.Reaches(t) })
}

// Forwarded reports whether a forward leads to a target.
func (l *List) Forwarded(t Target) bool {
	return slices.ContainsFunc(l.Forwards, func(f Forward) bool { return f.Host == t.Host && f.Port == t.Port })
}

// Address refuses an address to which a target resolves unless it is public, or
// named: by a rule that declares its target private, or by the address itself.
// A network names a special address only if the whole network is of that kind:
// 0.0.0.0/0 does not name a private one. own reports that the address belongs
// to this machine: services there may trust local connections.
func (l *List) Address(t Target, addr netip.Addr, own bool) *Refusal {
	addr = addr.Unmap()
	kind := netaddr.Special(addr)
	if kind == nil && own {
		kind = netaddr.One(addr, "an address of the node itself", true) // only itself names it
	}
	if kind == nil {
		return nil
	}
	if kind.Private && l.Forwarded(t) {
		return nil
	}
	for i := range l.Rules {
		r := &l.Rules[i]
		if !slices.Contains(r.ports(), t.Port) {
			continue
		}
		if kind.Private && r.Private && r.names(t) {
			return nil
		}
		if network, ok := r.network(); ok && network.Contains(addr) && kind.Holds(network) {
			return nil
		}
	}
	if slices.ContainsFunc(l.Forwards, func(f Forward) bool { return f.Host == addr.String() && f.Port == t.Port }) {
		return nil
	}
	out := &Refusal{Reason: fmt.Sprintf("%s is %s, %s", t, addr, kind.Word)}
	if t.Addr.IsValid() {
		out.Reason = fmt.Sprintf("%s is %s", t, kind.Word)
	}
	if kind.Private {
		out.Allow = suggest(Rule{Host: t.Host, Ports: t.ports(), Private: !t.Addr.IsValid()})
	}
	return out
}

// Special returns the entries of a list that name special addresses outside
// private networks, such as 127.0.0.0/8 or 169.254.169.254.
func (l *List) Special() []string {
	var out []string
	for i := range l.Rules {
		network, ok := l.Rules[i].network()
		if kind := netaddr.Special(network.Addr()); ok && kind != nil && !kind.Private && kind.Holds(network) {
			out = append(out, l.Rules[i].Host)
		}
	}
	for _, f := range l.Forwards {
		addr, err := netip.ParseAddr(f.Host)
		if kind := netaddr.Special(addr); err == nil && kind != nil && !kind.Private {
			out = append(out, f.Host)
		}
	}
	return out
}

// ReadOnly returns the part of a list that is read-only.
func (l List) ReadOnly() List {
	var out List
	for _, r := range l.Rules {
		if r.ReadOnly {
			out.Rules = append(out.Rules, r)
		}
	}
	return out
}

// readingRules let requests pass that change nothing.
var readingRules = []string{"allow GET,HEAD,OPTIONS /", "allow GET,HEAD,OPTIONS /**"}

// Reading returns a list with which each request is one that changes nothing, also inside TLS,
// whatever programs send: the proxy terminates TLS for single hosts. Inside TLS to rules of
// several hosts it cannot see requests, so those allow plain HTTP only.
func (l List) Reading() List {
	out := List{Rules: slices.Clone(l.Rules)}
	for i := range out.Rules {
		r := &out.Rules[i]
		switch {
		case len(r.HTTP) > 0:
			r.HTTP = reading(r.HTTP)
		case len(r.Methods) > 0:
			r.Methods = SafeOf(r.Methods)
		case strings.ContainsAny(r.Host, "*/"):
			r.Methods = safeMethods
		default:
			r.HTTP = readingRules
		}
	}
	out.Rules = slices.DeleteFunc(out.Rules, func(r Rule) bool { return len(r.HTTP) == 0 && len(r.Methods) == 0 })
	return out
}

// reading returns what some rules by method and path allow of requests that change nothing.
// What rules leave to a tool is the tool's.
func reading(rules []string) (out []string) {
	for _, text := range rules {
		r, err := httprule.ParseRule(text)
		if err != nil {
			continue // it would allow nothing
		}
		if r.Effect != httprule.Deny {
			if r.Methods = SafeOf(r.Methods); len(r.Methods) == 0 {
				continue
			}
		}
		out = append(out, r.Text())
	}
	return out
}

// Safe reports whether requests with a method change nothing.
func Safe(method string) bool { return slices.Contains(safeMethods, method) }

// SafeOf returns those of some methods that change nothing; none means all.
func SafeOf(methods []string) []string {
	if len(methods) == 0 {
		return slices.Clone(safeMethods)
	}
	return slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return !Safe(m) })
}

// Upgrade refuses to upgrade a request to a WebSocket where only read-only rules are about its
// host: what is sent through it is not seen.
func (l *List) Upgrade(t Target) *Refusal {
	about := false
	for i := range l.Rules {
		if r := &l.Rules[i]; r.Reaches(t) {
			about = true
			if !r.ReadOnly {
				return nil
			}
		}
	}
	if !about {
		return nil
	}
	return &Refusal{Reason: fmt.Sprintf("the rules for %s are read-only, and what is sent through a WebSocket is not seen", t)}
}

func (r *Rule) ports() []uint16 {
	if len(r.Ports) == 0 {
		return webPorts
	}
	return r.Ports
}

// Reaches reports whether the rule is about a target's host and port.
func (r *Rule) Reaches(t Target) bool { return r.names(t) && slices.Contains(r.ports(), t.Port) }

func (r *Rule) permits(method string) bool {
	switch {
	case len(r.HTTP) > 0:
		return false
	case len(r.Methods) > 0:
		return method != Opaque && slices.Contains(r.Methods, method)
	case r.ReadOnly && method != Opaque:
		return Safe(method)
	}
	return true
}

// names reports whether the rule is about a target's host.
func (r *Rule) names(t Target) bool {
	if t.Addr.IsValid() {
		network, ok := r.network()
		return ok && network.Contains(t.Addr)
	}
	if r.Host == "*" {
		return true
	}
	if below, ok := strings.CutPrefix(r.Host, "*"); ok {
		return strings.HasSuffix(t.Host, below) && len(t.Host) > len(below)
	}
	return r.Host == t.Host
}

// network returns what a rule allows of addresses, if it is about addresses.
func (r *Rule) network() (netip.Prefix, bool) {
	if addr, err := netip.ParseAddr(r.Host); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	network, err := netip.ParsePrefix(r.Host)
	return network, err == nil
}

// String is the rule as Parse reads it, without what only a mapping can say.
func (r *Rule) String() string {
	if len(r.Ports) == 0 {
		return r.Host
	}
	ports := make([]string, len(r.Ports))
	for i, p := range r.Ports {
		ports[i] = strconv.Itoa(int(p))
	}
	host := r.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strings.Join(ports, ",")
}

// suggest writes a rule as a persona has it.
func suggest(r Rule) string {
	if len(r.Methods) == 0 && !r.Private {
		return fmt.Sprintf("egress: {allow: [%q]}", r.String())
	}
	text := fmt.Sprintf("host: %q", r.Host)
	if len(r.Ports) > 0 {
		text += fmt.Sprintf(", ports: [%d]", r.Ports[0])
	}
	if len(r.Methods) > 0 {
		text += fmt.Sprintf(", methods: [%s]", r.Methods[0])
	}
	if r.Private {
		text += ", private: true"
	}
	return "egress: {allow: [{" + text + "}]}"
}

// RuleFor returns the rule that allows a target, as it is written in egress.allow: the
// host alone for the usual ports.
func RuleFor(t Target) string {
	r := Rule{Host: t.Host, Ports: t.ports()}
	return r.String()
}

// suggestion returns what would allow a target that no rule names.
func suggestion(t Target) string {
	if t.Addr.IsValid() {
		if kind := netaddr.Special(t.Addr); kind != nil && !kind.Private {
			return ""
		}
	}
	for _, name := range PresetNames() {
		if slices.ContainsFunc(presets[name], func(r Rule) bool { return r.Reaches(t) }) {
			return fmt.Sprintf("egress: {presets: [%s]}", name)
		}
	}
	return suggest(Rule{Host: t.Host, Ports: t.ports()})
}
