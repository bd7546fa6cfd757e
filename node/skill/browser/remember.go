package browser

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// targets are the elements that words have meant before, in this browser and in earlier runs:
// by page and words. What became of the target of a call goes back to the hub, which remembers
// it for later runs.
type targets struct {
	known map[[2]string]browserlink.Target
	// used is about the target of the call in progress; nil if there is nothing to say.
	used *browserlink.UsedTarget
}

func newTargets(all []browserlink.Target) targets {
	t := targets{known: map[[2]string]browserlink.Target{}}
	for _, one := range all[:min(len(all), browserlink.MaxTargets)] {
		t.known[[2]string{one.Page, one.Words}] = one
	}
	return t
}

// take returns what became of the target of a call. One that was found is remembered only if the
// call worked.
func (t *targets) take(worked bool) *browserlink.UsedTarget {
	used := t.used
	t.used = nil
	switch {
	case used == nil || !worked && !used.Missed:
		return nil
	case !worked:
		used.Role, used.Name, used.Nth, used.Of = "", "", 0, 0
	}
	key := [2]string{used.Page, used.Words}
	if used.Role == "" {
		delete(t.known, key)
	} else if len(t.known) < browserlink.MaxTargets || t.known[key].Role != "" {
		t.known[key] = used.Target
	}
	return used
}

// recall looks for the target of a call among those that are remembered.
type recall struct{ c *call }

// place returns the page and words by which a call's target is remembered; ok is false for one
// that is not: only what acts is, and only plain words are, as the other forms say which element
// is meant.
func (r recall) place(use purpose) (key [2]string, ok bool) {
	c := r.c
	words := strings.Join(strings.Fields(c.args.Target), " ")
	if use == forLook || len(words) > browserlink.MaxWords || !worded(words) {
		return key, false
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	key = [2]string{browserlink.PageOf(c.t.url), words}
	return key, key[0] != ""
}

// find returns the element that the call's target meant before, if the page has it.
func (r recall) find(use purpose) (element, bool, error) {
	c := r.c
	key, ok := r.place(use)
	if !ok {
		return element{}, false, nil
	}
	is, ok := c.b.targets.known[key]
	if !ok {
		return element{}, false, nil
	}
	same, err := r.same(is.Role, is.Name, use)
	if err != nil {
		return element{}, false, err
	}
	if len(same) == 0 || len(same) != max(is.Of, 1) || is.Nth > len(same) {
		c.b.targets.used = &browserlink.UsedTarget{Target: browserlink.Target{Page: key[0], Words: key[1]}, Missed: true}
		c.say("what %q meant before is not on the page any more", clean(key[1], 120))
		return element{}, false, nil
	}
	c.b.targets.used = &browserlink.UsedTarget{Target: is, Hit: true}
	e := same[max(is.Nth, 1)-1]
	c.say("target: what it meant before, %s", c.named(e))
	return e, true, nil
}

// keep notes which element the call's target means.
func (r recall) keep(e element, use purpose) error {
	c := r.c
	key, ok := r.place(use)
	role := roleName(e.role)
	if !ok || e.name == "" || len(e.name) > browserlink.MaxName || role == "" || strings.ContainsFunc(role, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return nil
	}
	same, err := r.same(role, e.name, use)
	if err != nil {
		return err
	}
	nth := slices.IndexFunc(same, func(one element) bool { return one.backend == e.backend }) + 1
	if nth == 0 {
		return nil
	}
	missed := c.b.targets.used != nil && c.b.targets.used.Missed
	c.b.targets.used = &browserlink.UsedTarget{Missed: missed, Target: browserlink.Target{
		Page: key[0], Words: key[1], Role: role, Name: e.name, Nth: nth, Of: len(same),
	}}
	return nil
}

// same returns the elements of the page with a role and a name that can be used for a purpose,
// in the order of the page.
func (r recall) same(role, name string, use purpose) (out []element, err error) {
	root, err := r.c.looked(r.c.ctx)
	if err != nil {
		return nil, err
	}
	q := question{role: role, name: name, exact: true}
	collect(root, func(n *node) {
		if n.backend != 0 && n.role != "RootWebArea" && roleName(n.role) == role && n.name == name && n.score(q, use) > 0 {
			out = append(out, n.element)
		}
	})
	return out, nil
}
