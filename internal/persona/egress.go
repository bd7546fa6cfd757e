package persona

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// egressDecoder reads egress rules.
type egressDecoder struct{ *reader }

// egress reads where the agent's commands may connect to.
func (d egressDecoder) egress(n *yaml.Node) (out allowlist.List) {
	before := len(d.problems.List)
	d.mapping(n, "egress", []field{
		{"presets", func(n *yaml.Node) {
			d.list(n, "egress.presets", len(allowlist.PresetNames()), func(n *yaml.Node, value string) {
				out.Rules = append(out.Rules, d.preset(n, "egress.presets", value)...)
			})
		}},
		{"allow", func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				d.problems.add(n.Line, "egress.allow must be a list, such as [api.example.com, \"*.example.org:8443\"]")
				return
			}
			for _, item := range n.Content {
				out.Rules = append(out.Rules, d.rule(item)...)
			}
		}},
		{"tcp", func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				d.problems.add(n.Line, "egress.tcp must be a list, such as [\"db.example.com:5432\"]")
				return
			}
			for _, item := range n.Content {
				out.Forwards = append(out.Forwards, d.forward(item)...)
			}
		}},
	})
	if len(d.problems.List) == before {
		if err := out.Check(); err != nil {
			d.problems.add(n.Line, "egress: %s", err)
		}
	}
	return out
}

// preset returns the rules of a preset.
func (d egressDecoder) preset(n *yaml.Node, key, name string) []allowlist.Rule {
	rules := allowlist.Preset(name)
	if rules == nil && name != "" {
		d.problems.add(n.Line, "%s has %s: %s", key, quote(name), suggest(name, allowlist.PresetNames()))
	}
	return rules
}

// rule reads an entry of egress.allow, which may be a host as text, or a mapping
// with what text cannot say.
func (d egressDecoder) rule(n *yaml.Node) []allowlist.Rule {
	const key = "egress.allow"
	if n.Kind != yaml.MappingNode {
		return d.host(n, key)
	}
	var with allowlist.Rule
	var hosts []allowlist.Rule
	met := d.mapping(n, key, []field{
		{"host", func(n *yaml.Node) { hosts = d.host(n, key+".host") }},
		{"preset", func(n *yaml.Node) { hosts = slices.Clone(d.preset(n, key+".preset", d.text(n, key+".preset", 64))) }},
		{"ports", func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
				d.problems.add(n.Line, "%s.ports must be a list of ports, such as [443, 8443]", key)
				return
			}
			for _, item := range n.Content {
				with.Ports = append(with.Ports, uint16(d.integer(item, key+".ports", 1, 65535))) //nolint:gosec // it is within bounds
			}
		}},
		{"methods", func(n *yaml.Node) {
			with.Methods = d.list(n, key+".methods", len(allowlist.Methods), func(n *yaml.Node, value string) {
				if !slices.Contains(allowlist.Methods, value) {
					d.problems.add(n.Line, "%s.methods has %s: %s", key, quote(value), suggest(value, allowlist.Methods))
				}
			})
		}},
		{"private", func(n *yaml.Node) { with.Private = d.flag(n, key+".private") }},
		{"read_only", func(n *yaml.Node) { with.ReadOnly = d.flag(n, key+".read_only") }},
		{"http", func(n *yaml.Node) {
			with.HTTP = d.list(n, key+".http", allowlist.MaxHTTP, func(n *yaml.Node, value string) {
				if err := allowlist.CheckHTTP(value); err != nil {
					d.problems.add(n.Line, "%s.http has %s: %s", key, quote(value), err)
				}
			})
		}},
	})
	switch {
	case (met["host"] == 0) == (met["preset"] == 0):
		d.problems.add(n.Line, "%s has an entry without host and preset, or with both: name one, such as {host: api.example.com}", key)
	case met["preset"] != 0 && met["ports"]+met["methods"]+met["private"]+met["http"] != 0:
		d.problems.add(n.Line, "%s has a preset with more than read_only: write its hosts out", key)
	case met["ports"] != 0 && len(hosts) == 1 && len(hosts[0].Ports) > 0:
		d.problems.add(n.Line, "%s names ports twice, behind the host and as ports: keep one", key)
	}
	for i := range hosts {
		r := &hosts[i]
		r.Methods, r.Private, r.ReadOnly, r.HTTP = with.Methods, with.Private, with.ReadOnly, with.HTTP
		if with.Ports != nil {
			r.Ports = with.Ports
		}
		if err := r.Check(); err != nil {
			d.problems.add(n.Line, "%s: %s", key, err)
		}
	}
	return hosts
}

func (d egressDecoder) host(n *yaml.Node, key string) []allowlist.Rule {
	value := d.text(n, key, 512)
	if value == "" {
		return nil
	}
	r, err := allowlist.Parse(value)
	if err != nil {
		d.problems.add(n.Line, "%s has %s: %s", key, quote(value), err)
		return nil
	}
	return []allowlist.Rule{r}
}

// forward reads an entry of egress.tcp: host:port, or a mapping where the jail's
// port is another.
func (d egressDecoder) forward(n *yaml.Node) []allowlist.Forward {
	const key = "egress.tcp"
	var out allowlist.Forward
	ok := false
	to := func(n *yaml.Node) {
		value := d.text(n, key, 512)
		if value == "" {
			return
		}
		f, err := allowlist.ParseForward(value)
		if err != nil {
			d.problems.add(n.Line, "%s has %s: %s", key, quote(value), err)
			return
		}
		out, ok = f, true
	}
	if n.Kind != yaml.MappingNode {
		to(n)
	} else {
		listen := int64(0)
		met := d.mapping(n, key, []field{
			{"to", to},
			{"listen", func(n *yaml.Node) { listen = d.integer(n, key+".listen", 1024, 65535) }},
		})
		d.require(n, met, map[string]string{"to": "to: and a host with its port, such as db.example.com:5432"})
		if listen != 0 {
			out.Listen = uint16(listen) //nolint:gosec // it is within bounds
		}
	}
	if !ok {
		return nil
	}
	return []allowlist.Forward{out}
}
