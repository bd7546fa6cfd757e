package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/gitpush"
	"github.com/deckhand-sh/deckhand/internal/httprule"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// policy is all that decides about a jail's connections and requests. It is not changed
// once it is in use.
type policy struct {
	// list is what the jail's rules allow, and hosts that and the hosts of the bindings,
	// to which connections may be opened.
	list, hosts *allowlist.List
	bindings    []*binding
	rules       []hostRules
	authorities []*authority
}

// binding is a credential and the requests that it is inserted into.
type binding struct {
	*nodev1.Egress_Binding

	at     allowlist.Rule
	scope  httprule.Scope
	pushes gitpush.Rules
	roots  *x509.CertPool // nil for the machine's own
}

// hostRules are the rules by method and path of a host.
type hostRules struct {
	at    allowlist.Rule
	rules []httprule.Rule
}

// policyOf reads rules as they travel.
func policyOf(e *nodev1.Egress) (*policy, error) {
	list, err := listOf(e)
	if err != nil {
		return nil, err
	}
	p := &policy{list: list, hosts: &allowlist.List{Rules: slices.Clone(list.Rules), Forwards: list.Forwards}}
	for i, r := range e.GetRules() {
		if len(r.GetHttp()) == 0 {
			continue
		}
		rules := hostRules{at: list.Rules[i]}
		rules.at.Methods = nil
		for _, text := range r.GetHttp() {
			rule, err := httprule.ParseRule(text)
			if err != nil {
				return nil, fmt.Errorf("the rule %q for %s: %w", text, r.GetHost(), err)
			}
			rules.rules = append(rules.rules, rule)
		}
		p.rules = append(p.rules, rules)
	}
	for _, b := range e.GetBindings() {
		one, err := bindingOf(b)
		if err != nil {
			return nil, fmt.Errorf("credential %s: %w", b.GetCredential(), err)
		}
		p.bindings = append(p.bindings, one...)
		for _, o := range one {
			p.hosts.Rules = append(p.hosts.Rules, o.at)
		}
	}
	for _, text := range e.GetAuthorities() {
		a, err := authorityOf(text)
		if err != nil {
			return nil, err
		}
		p.authorities = append(p.authorities, a)
	}
	return p, p.checkForwards()
}

// bindingOf reads a binding: one for each of its hosts.
func bindingOf(b *nodev1.Egress_Binding) (out []*binding, err error) {
	one := binding{Egress_Binding: b}
	if one.scope, err = httprule.ParseScope(b.GetMethods(), b.GetPaths()); err != nil {
		return nil, err
	}
	if one.pushes, err = gitpush.ParseRules(b.GetPushes()); err != nil {
		return nil, err
	}
	if b.GetRoots() != "" {
		one.roots = x509.NewCertPool()
		if !one.roots.AppendCertsFromPEM([]byte(b.GetRoots())) {
			return nil, errors.New("roots are no certificates in PEM")
		}
	}
	ports := []uint16{443}
	if len(b.GetPorts()) > 0 {
		ports = nil
	}
	for _, port := range b.GetPorts() {
		if port == 0 || port > 65535 {
			return nil, fmt.Errorf("%d is not a port", port)
		}
		ports = append(ports, uint16(port))
	}
	for _, host := range b.GetHosts() {
		t, err := allowlist.ParseTarget(host, ports[0])
		if err != nil {
			return nil, err
		}
		own := one
		own.at = allowlist.Rule{Host: t.Host, Ports: ports, Private: b.GetPrivate() && !t.Addr.IsValid()}
		out = append(out, &own)
	}
	return out, nil
}

// checkForwards refuses a forward to a host whose requests are decided one by one.
func (p *policy) checkForwards() error {
	for _, f := range p.list.Forwards {
		t, err := allowlist.ParseTarget(f.Host, f.Port)
		if err == nil && p.intercepts(t) {
			return fmt.Errorf("the forward to %s would pass by the rules for its requests, or its credential", t)
		}
	}
	return nil
}

// intercepts reports whether the proxy terminates TLS for a target.
func (p *policy) intercepts(t allowlist.Target) bool {
	return p.bound(t) || slices.ContainsFunc(p.rules, func(h hostRules) bool { return h.at.Reaches(t) })
}

// bound reports whether a target is one of a credential.
func (p *policy) bound(t allowlist.Target) bool {
	return slices.ContainsFunc(p.bindings, func(b *binding) bool { return b.at.Reaches(t) })
}

// decide returns the credential for a request, or nil for none. A request that is not
// allowed, or that more than one credential fits, is refused.
func (p *policy) decide(q *question) (*binding, *allowlist.Refusal) {
	if p.byPath(q.t) {
		switch {
		case !q.strict:
			return nil, &allowlist.Refusal{Reason: fmt.Sprintf("the rules for %s have changed; send the request again", q.t)}
		case q.err != nil:
			return nil, &allowlist.Refusal{Reason: fmt.Sprintf("the request to %s cannot be decided by its path: %s", q.t, q.err)}
		}
	}
	if q.upgrade {
		if refusal := p.list.Upgrade(q.t); refusal != nil {
			return nil, refusal
		}
	}
	fits := p.fitting(q)
	if len(fits) > 1 {
		return nil, &allowlist.Refusal{Reason: fmt.Sprintf(
			"the credentials %s and %s both fit this request to %s: their owner must bind them to different methods or paths",
			fits[0].GetCredential(), fits[1].GetCredential(), q.t)}
	}
	var explicit bool
	var refusal *allowlist.Refusal
	// A credential allows what no rule names: then there is no refusal to explain.
	if len(fits) == 0 || q.upgrade || len(p.rulesFor(q.t)) > 0 {
		explicit, refusal = p.ruled(q)
	}
	switch {
	case refusal != nil && !explicit && len(fits) == 0 && p.denying(q) != nil:
		return nil, &allowlist.Refusal{Reason: fmt.Sprintf("the credential %s may not be used for %s %.100s of %s", p.denying(q).GetCredential(), q.method, q.path, q.t)}
	case refusal != nil && (explicit || len(fits) == 0):
		return nil, refusal
	case len(fits) == 0:
		return nil, nil
	case q.upgrade && refusal != nil && fits[0].reads():
		return nil, &allowlist.Refusal{Reason: fmt.Sprintf(
			"%s is opened by the credential %s, with which requests may only read here, and what is sent through a WebSocket is not seen", q.t, fits[0].GetCredential())}
	case q.err != nil:
		return nil, &allowlist.Refusal{Reason: fmt.Sprintf("servers may read the path of the request to %s in several ways, so that no credential is inserted: %s", q.t, q.err)}
	case tokenPath(q.method, q.path.String()):
		return nil, &allowlist.Refusal{Reason: fmt.Sprintf(
			"%s issues tokens at %.100s, and a command must not get one: use the credential %s itself", q.t, q.path, fits[0].GetCredential())}
	}
	return fits[0], nil
}

// plain returns the policy for plain HTTP, into which no credential is inserted.
func (p *policy) plain() *policy { return &policy{list: p.list, hosts: p.hosts, rules: p.rules} }

// byPath reports whether anything about a target is decided by a request's path.
func (p *policy) byPath(t allowlist.Target) bool {
	return slices.ContainsFunc(p.rules, func(h hostRules) bool { return h.at.Reaches(t) }) ||
		slices.ContainsFunc(p.bindings, func(b *binding) bool { return b.scope.ByPath() && b.at.Reaches(t) })
}

// fitting returns the bindings that a request fits, one for each credential.
func (p *policy) fitting(q *question) (out []*binding) {
	for _, b := range p.bindings {
		if b.at.Reaches(q.t) && b.scope.Covers(q.method, q.path) &&
			!slices.ContainsFunc(out, func(have *binding) bool { return have.GetCredential() == b.GetCredential() }) {
			out = append(out, b)
		}
	}
	return out
}

// denying returns a binding to the host of a request that leaves its path out; nil if there is
// none.
func (p *policy) denying(q *question) *binding {
	for _, b := range p.bindings {
		if q.err == nil && b.at.Reaches(q.t) && b.scope.Denies(q.method, q.path) {
			return b
		}
	}
	return nil
}

// reads reports whether only requests that change nothing fit: those of a task in review mode, and
// those of a credential that is bound to such methods.
func (b *binding) reads() bool {
	return len(b.GetMethods()) > 0 && len(allowlist.SafeOf(b.GetMethods())) == len(b.GetMethods())
}

// ruled decides a request by the rules for its host. explicit says that a rule names the
// request: a credential does not allow what such a rule refuses.
func (p *policy) ruled(q *question) (explicit bool, _ *allowlist.Refusal) {
	rules := p.rulesFor(q.t)
	if len(rules) == 0 {
		return false, p.list.Match(q.t, q.method)
	}
	var operations []string
	if httprule.NeedsOperations(rules, q.method, q.path) {
		var err error
		if operations, err = q.operations, q.operationsErr; err == nil && operations == nil {
			err = errors.New("the rules have changed; send it again")
		}
		if err != nil {
			return true, &allowlist.Refusal{Reason: fmt.Sprintf("the rules for %s are about GraphQL operations, and this request cannot be read as GraphQL: %s", q.t, err)}
		}
	}
	d := httprule.Decide(httprule.For(rules, q.tool()), q.method, q.path, operations)
	if d.Effect == httprule.Allow {
		return false, nil
	}
	out := &allowlist.Refusal{Reason: fmt.Sprintf("%s: %s", q.t, d.Reason)}
	if d.Suggestion != "" {
		out.Allow = fmt.Sprintf("egress: {allow: [{host: %q, http: [%q]}]}", q.t.Host, "allow "+d.Suggestion)
	}
	return d.Rule != "", out
}

// rulesFor returns the rules by method and path for a target.
func (p *policy) rulesFor(t allowlist.Target) (out []httprule.Rule) {
	for _, h := range p.rules {
		if h.at.Reaches(t) {
			out = append(out, h.rules...)
		}
	}
	return out
}

// trusts reports whether hosts of a credential are verified by some certificates.
func (p *policy) trusts(roots string) bool {
	return slices.ContainsFunc(p.bindings, func(b *binding) bool { return b.GetRoots() == roots })
}

// authority returns the one that may prove to be a host; nil if there is none.
func (p *policy) authority(t allowlist.Target) *authority {
	for _, a := range p.authorities {
		if a.permits(t) {
			return a
		}
	}
	return nil
}

// same reports whether a binding is in force in another policy as well.
func (p *policy) same(b *binding) bool {
	return slices.ContainsFunc(p.bindings, func(o *binding) bool {
		return o.at.Host == b.at.Host && o.GetCredential() == b.GetCredential() && o.GetVersion() == b.GetVersion() && o.GetHeld() == b.GetHeld() &&
			slices.Equal(o.GetMethods(), b.GetMethods()) && slices.Equal(o.GetPaths(), b.GetPaths()) && slices.Equal(o.at.Ports, b.at.Ports) &&
			slices.Equal(o.GetPushes(), b.GetPushes()) && o.GetRoots() == b.GetRoots()
	})
}

// opaque decides TLS that is passed on as it is.
func (p *policy) opaque(t allowlist.Target) *allowlist.Refusal {
	if p.intercepts(t) {
		return &allowlist.Refusal{Reason: fmt.Sprintf("the rules for %s have changed since the tunnel was opened; connect again", t)}
	}
	return p.list.Match(t, allowlist.Opaque)
}
