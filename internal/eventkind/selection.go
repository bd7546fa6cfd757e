package eventkind

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Selection is a choice of events by their names: kinds and lifecycle names. A Selection of
// no patterns has no event.
type Selection map[string]bool

// Select returns the events that patterns name: a group, a name, or the beginning of names
// with a * at its end. The error of a pattern that names nothing tells field.
func Select(field string, patterns []string) (Selection, error) {
	out := Selection{}
	for _, pattern := range patterns {
		chosen := Members(pattern)
		if len(chosen) == 0 {
			prefix, open := strings.CutSuffix(pattern, "*")
			for _, n := range named {
				if n.name == pattern || open && strings.HasPrefix(n.name, prefix) {
					chosen = append(chosen, n.name)
				}
			}
		}
		if len(chosen) == 0 {
			return nil, fault.New(fault.Invalid, "unknown event type %.64q in %s", pattern, field).
				WithFix("use groups (%s), types such as agent.failed, or beginnings such as agent.*", strings.Join(Groups(), ", "))
		}
		for _, name := range chosen {
			out[name] = true
		}
	}
	return out, nil
}

// Sources returns the kinds of the events that have to be read, sorted.
func (s Selection) Sources() []string {
	var out []string
	for _, e := range table {
		if s[string(e.Kind)] {
			out = append(out, string(e.Kind))
		}
	}
	for _, l := range lifecycles {
		if s[l.Name] {
			out = append(out, string(l.From))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Of returns those of an event's names that are selected: its kind first.
func (s Selection) Of(kind string, payload map[string]any) []string {
	var out []string
	if s[kind] {
		out = append(out, kind)
	}
	for _, name := range LifecycleOf(kind, func(field string) string {
		word, _ := payload[field].(string)
		return word
	}) {
		if s[name] {
			out = append(out, name)
		}
	}
	return out
}

// Has reports whether an event with that payload, in JSON, is selected.
func (s Selection) Has(kind string, payload []byte) bool {
	if s[kind] {
		return true
	}
	var fields map[string]any
	text := func(field string) string {
		if fields == nil {
			_ = json.Unmarshal(payload, &fields) // what is no object has no field
		}
		word, _ := fields[field].(string)
		return word
	}
	return slices.ContainsFunc(lifecycles, func(l Lifecycle) bool { return string(l.From) == kind && s[l.Name] && l.has(text) })
}
