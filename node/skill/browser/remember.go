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
		used.Role, used.Name = "", ""
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

// place returns the page and words by which a call's target is remembered, and what the words ask
// for. ok is false for a target that is not remembered: only what acts is, and only plain words
// are, as the other forms say which element is meant. Words for a place, a state or a color are
// about the page as it is now, and "the button in the row Ada" is another one tomorrow.
func (r recall) place(use purpose) (key [2]string, q question, ok bool) {
	c := r.c
	words := browserlink.Words(c.args.Target)
	if use == forLook || len(words) > browserlink.MaxWords || !worded(words) {
		return key, q, false
	}
	q = parseWords(words)
	if len(q.around) > 0 || q.nth != 0 || len(q.states) > 0 || q.color != "" {
		return key, q, false
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	key = [2]string{browserlink.PageOf(c.t.url), words}
	return key, q, key[0] != ""
}

// find returns the element that the call's target meant before, if the page has one such
// element, the words still fit it, and they are not the name of another one.
func (r recall) find(use purpose) (element, bool, error) {
	c := r.c
	key, q, ok := r.place(use)
	is, known := c.b.targets.known[key]
	if !ok || !known {
		return element{}, false, nil
	}
	same, err := r.same(is.Role, is.Name, use)
	if err != nil {
		return element{}, false, err
	}
	if len(same) == 0 {
		c.b.targets.used = &browserlink.UsedTarget{Target: browserlink.Target{Page: key[0], Words: key[1]}, Missed: true}
		c.say("what %q meant before is not on the page any more", clean(key[1], 120))
		return element{}, false, nil
	}
	if len(same) > 1 {
		return element{}, false, nil
	}
	root, err := c.looked(c.ctx)
	if err != nil {
		return element{}, false, err
	}
	all := rank(root, q, use)
	at := slices.IndexFunc(all, func(one scored) bool { return one.node.is(same[0]) })
	if at < 0 || slices.ContainsFunc(all, func(one scored) bool {
		return q.calls(one.node.name) && !related(one.node, all[at].node)
	}) {
		return element{}, false, nil
	}
	c.b.targets.used = &browserlink.UsedTarget{Target: is, Hit: true}
	c.say("target: what it meant before, %s", c.named(same[0]))
	return same[0], true, nil
}

// keep notes which element the call's target means, if no other element of the page has its
// role and name.
func (r recall) keep(e element, use purpose) error {
	c := r.c
	key, _, ok := r.place(use)
	is := browserlink.Target{Page: key[0], Words: key[1], Role: roleName(e.role), Name: e.name}
	if !ok || is.Check() != nil {
		return nil
	}
	same, err := r.same(is.Role, is.Name, use)
	if err != nil {
		return err
	}
	if len(same) != 1 || !same[0].is(e) {
		return nil
	}
	before, known := c.b.targets.known[key]
	c.b.targets.used = &browserlink.UsedTarget{Target: is, Hit: known && before == is, Missed: known && before != is}
	return nil
}

// is reports whether two elements are one.
func (e element) is(other element) bool { return e.backend == other.backend && e.frame == other.frame }

// calls reports whether the words are a name: what they quote, or all of them but those that say
// nothing and those for kinds of elements.
func (q question) calls(name string) bool {
	if q.name != "" {
		return strings.EqualFold(browserlink.Words(name), browserlink.Words(q.name))
	}
	plain := func(text string, kinds bool) string {
		return strings.Join(slices.DeleteFunc(strings.Fields(strings.ToLower(text)), func(word string) bool {
			return idle[word] || kinds && roleWords[word] != ""
		}), " ")
	}
	is := plain(name, false)
	return is != "" && (is == plain(q.text, false) || is == plain(q.text, true))
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
