package machine

import (
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// EgressOf converts an allowlist to the form that nodes take; nil for an empty one.
func EgressOf(l allowlist.List) *nodev1.Egress {
	if len(l.Rules) == 0 && len(l.Forwards) == 0 {
		return nil
	}
	out := &nodev1.Egress{}
	for _, r := range l.Rules {
		rule := &nodev1.Egress_Rule{Host: r.Host, Methods: r.Methods, Private: r.Private, ReadOnly: r.ReadOnly, Http: r.HTTP}
		for _, port := range r.Ports {
			rule.Ports = append(rule.Ports, uint32(port))
		}
		out.Rules = append(out.Rules, rule)
	}
	for _, f := range l.Forwards {
		out.Forwards = append(out.Forwards, &nodev1.Egress_Forward{Listen: uint32(f.Listen), Host: f.Host, Port: uint32(f.Port)})
	}
	return out
}
