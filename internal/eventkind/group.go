package eventkind

import (
	"cmp"
	"slices"
)

// Group is a set of events that people and other systems choose by one name.
type Group string

// The groups.
const (
	Approvals   Group = "approvals"
	Questions   Group = "questions"
	Failures    Group = "failures"
	Budgets     Group = "budgets"
	Escalations Group = "escalations"
	Security    Group = "security"
	Lifecycles  Group = "lifecycle"
	Stream      Group = "stream"
)

// people are the groups that need a person's attention.
var people = []Group{Approvals, Questions, Failures, Budgets, Escalations, Security}

// Groups returns the names of all groups: those that need a person first.
func Groups() []string {
	var out []string
	for _, g := range append(slices.Clone(people), Lifecycles, Stream) {
		out = append(out, string(g))
	}
	return out
}

// People returns the names of the groups that need a person's attention.
func People() []string {
	var out []string
	for _, g := range people {
		out = append(out, string(g))
	}
	return out
}

// Members returns the names of the events of a group, sorted; none for another word.
func Members(group string) []string {
	var out []string
	for _, n := range named {
		if slices.Contains(n.groups, Group(group)) {
			out = append(out, n.name)
		}
	}
	return out
}

// name is one name under which events are chosen.
type name struct {
	name   string
	groups []Group
}

// named are all names, sorted, each once.
var named = func() []name {
	var all []name
	for _, e := range table {
		all = append(all, name{string(e.Kind), e.Groups})
	}
	for _, l := range lifecycles {
		all = append(all, name{l.Name, l.Groups})
	}
	for _, o := range outside {
		all = append(all, name{string(o.Kind), o.Groups})
	}
	slices.SortStableFunc(all, func(a, b name) int { return cmp.Compare(a.name, b.name) })
	var out []name
	for _, n := range all {
		if last := len(out) - 1; last >= 0 && out[last].name == n.name {
			out[last].groups = append(slices.Clone(out[last].groups), n.groups...)
		} else {
			out = append(out, n)
		}
	}
	return out
}()

// Selectable returns all words that Select takes, without beginnings: groups, then names.
func Selectable() []string {
	out := Groups()
	for _, n := range named {
		out = append(out, n.name)
	}
	return out
}
