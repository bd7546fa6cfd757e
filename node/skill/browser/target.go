package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// A target is written in one of four ways:
//
//	e12                       a reference of a snapshot
//	css=#pay, or #pay         a CSS selector
//	button "Pay"              a role and an accessible name
//	role=button[name="Pay"]   the same, as Playwright writes it
//	the blue Pay button       words, compared with the accessibility tree (see score)
var (
	referenceForm = regexp.MustCompile(`^(?:\[?ref=)?(e[0-9]{1,6})\]?$`)
	roleForm      = regexp.MustCompile(`^role=([a-z]+)(?:\[name="((?:[^"\\]|\\.)*)"[is]?\])?$`)
	namedForm     = regexp.MustCompile(`^([A-Za-z]+) "((?:[^"\\]|\\.)*)"$`)
	selectorForm  = regexp.MustCompile(`^(?:[#.][A-Za-z_-][\w-]*|\[[\w-]+.*\]|[a-z][a-z0-9-]*(?:[#.\[:][^ ]+)|[a-z][a-z0-9-]*(?:[#.\[:][^ ]*)?\s*[>+~]\s*.+|\*)`)
	tagForm       = regexp.MustCompile(`^(?:a|button|input|select|textarea|form|table|img|body|main|nav|header|footer|iframe|video|audio|canvas|svg|label|option|dialog|details|summary|h[1-6]|ul|ol|li|p|div|span)$`)
)

// maxCandidates is how many elements are named where a target is not clear.
const maxCandidates = 6

// purpose is what a target is for.
type purpose int

const (
	forAction purpose = iota // clicking, typing and the like
	forText                  // entering text
	forChoice                // choosing an option
	forFiles                 // giving files
	forLook                  // reading or showing
)

// resolve returns the element that a target names. If it is not clear, the error names the
// candidates.
func (p *page) resolve(ctx context.Context, target string, use purpose) (element, error) {
	return finder{p}.find(ctx, strings.TrimSpace(target), use)
}

// finder looks for elements of a page.
type finder struct{ *page }

// form is how a target is written.
type form int

const (
	asWords form = iota
	asReference
	asSelector
	likeSelector // words if it is not a valid selector
	asNamed
)

// formOf returns how a target is written, with its reference or selector, or the role and name that
// it asks for.
func formOf(target string) (as form, text string, q question) {
	if m := referenceForm.FindStringSubmatch(target); m != nil {
		return asReference, m[1], q
	}
	if selector, ok := strings.CutPrefix(target, "css="); ok {
		return asSelector, selector, q
	}
	if m := roleForm.FindStringSubmatch(target); m != nil {
		return asNamed, "", question{role: m[1], name: unescape(m[2]), exact: m[2] != ""}
	}
	if m := namedForm.FindStringSubmatch(target); m != nil && knownRole(m[1]) {
		return asNamed, "", question{role: m[1], name: unescape(m[2]), exact: true}
	}
	if selectorForm.MatchString(target) || tagForm.MatchString(target) {
		return likeSelector, target, q
	}
	return asWords, "", q
}

func (p finder) find(ctx context.Context, target string, use purpose) (element, error) {
	as, text, q := formOf(target)
	switch as {
	case asReference:
		return p.byReference(ctx, text)
	case asNamed:
		return p.byWords(ctx, q, use)
	case asSelector:
		return p.bySelector(ctx, text)
	case likeSelector:
		if e, err := p.bySelector(ctx, text); err == nil || !errors.Is(err, errNotSelector) {
			return e, err
		}
	case asWords:
	}
	return p.byWords(ctx, parseWords(target), use)
}

// worded reports whether a target is plain words.
func worded(target string) bool {
	as, _, _ := formOf(target)
	return as == asWords
}

func unescape(text string) string {
	var s string
	if json.Unmarshal([]byte(`"`+text+`"`), &s) != nil {
		return text
	}
	return s
}

// errNotSelector is returned for what no CSS selector is.
var errNotSelector = errors.New("it is not a CSS selector")

func (p finder) byReference(ctx context.Context, ref string) (element, error) {
	p.b.mu.Lock()
	e, ok := p.t.nodes[ref]
	p.b.mu.Unlock()
	if !ok {
		return e, fmt.Errorf("there is no %s on this page: references are valid until the page is left. Take a browser_snapshot", ref)
	}
	var there bool
	if raw, err := p.on(ctx, e, `function() { return this.isConnected }`); err == nil {
		_ = json.Unmarshal(raw, &there)
	} else if ctx.Err() != nil || errors.Is(err, errEnded) {
		return e, err
	}
	if there {
		return e, nil
	}
	// The page has drawn itself anew: what has the same role and name is the same for people.
	if e.name != "" {
		if same, err := p.byWords(ctx, question{role: roleName(e.role), name: e.name, exact: true}, forLook); err == nil {
			return same, nil
		}
	}
	return e, fmt.Errorf("%s (%s) is not on the page any more. Take a browser_snapshot", ref, e.describe())
}

// bySelector returns the one element that a selector matches in the page and its frames; of
// several the one that is visible.
func (p finder) bySelector(ctx context.Context, selector string) (element, error) {
	frames, err := p.frames(ctx)
	if err != nil {
		return element{}, err
	}
	var found []element
	var seen []bool
	for _, id := range frames {
		world, err := p.world(ctx, id)
		if err != nil {
			continue
		}
		for n := range maxCandidates {
			var out evaluated
			expression := fmt.Sprintf("(%s)(%s, %d)", findScript, quote(selector), n)
			if err := p.act(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "contextId": world}, &out); err != nil {
				return element{}, err
			}
			if out.Exception != nil {
				if strings.Contains(out.Exception.String(), "SyntaxError") || strings.Contains(out.Exception.String(), "not a valid selector") {
					return element{}, errNotSelector
				}
				return element{}, fmt.Errorf("the selector: %s", report.Clean([]byte(out.Exception.String()), 300))
			}
			if out.Result.ObjectID == "" {
				break
			}
			e, visible, err := p.describeObject(ctx, out.Result.ObjectID, id)
			if err != nil {
				return element{}, err
			}
			found, seen = append(found, e), append(seen, visible)
		}
	}
	visible := -1
	several := false
	for i := range found {
		if seen[i] {
			several = several || visible >= 0
			if visible < 0 {
				visible = i
			}
		}
	}
	switch {
	case len(found) == 0:
		return element{}, fmt.Errorf("no element matches the selector %s", report.Clean([]byte(selector), 200))
	case len(found) == 1:
		return found[0], nil
	case visible >= 0 && !several:
		return found[visible], nil
	}
	return element{}, p.unclear(fmt.Sprintf("the selector %s matches several elements", report.Clean([]byte(selector), 200)), found)
}

// findScript returns the nth element that a selector matches, also in open shadow trees.
const findScript = `(selector, n) => {
	document.createDocumentFragment().querySelector(selector);
	const all = [];
	const look = (root) => {
		for (const one of root.querySelectorAll(selector)) { all.push(one); if (all.length > n) return; }
		for (const one of root.querySelectorAll('*')) { if (one.shadowRoot) look(one.shadowRoot); if (all.length > n) return; }
	};
	look(document);
	return all[n] ?? null;
}`

// describeObject returns the element that is an object of a page, and whether it is visible.
func (p finder) describeObject(ctx context.Context, object, frame string) (element, bool, error) {
	var described struct {
		Node struct {
			Backend int64 `json:"backendNodeId"`
		} `json:"node"`
	}
	if err := p.act(ctx, "DOM.describeNode", map[string]any{"objectId": object}, &described); err != nil {
		return element{}, false, err
	}
	e := element{backend: described.Node.Backend, frame: frame}
	var ax struct {
		Nodes []axNode `json:"nodes"`
	}
	if err := p.act(ctx, "Accessibility.getPartialAXTree", map[string]any{"objectId": object, "fetchRelatives": false}, &ax); err == nil && len(ax.Nodes) > 0 {
		e.role, e.name = ax.Nodes[0].Role.String(), clean(ax.Nodes[0].Name.String(), 300)
	}
	raw, err := p.on(ctx, e, `function() { return this.checkVisibility ? this.checkVisibility({visibilityProperty: true}) : true }`)
	if err != nil {
		return e, false, err
	}
	return e, string(raw) == "true", nil
}

// byWords returns the element that best fits a question, if it is clear which does.
func (p finder) byWords(ctx context.Context, q question, use purpose) (element, error) {
	root, err := p.looked(ctx)
	if err != nil {
		return element{}, err
	}
	all := rank(root, q, use)
	if len(all) > 1 && q.color != "" {
		all = p.byColor(ctx, all, q.color)
	}
	best, clear := choose(all, q)
	if clear {
		return best, nil
	}
	var names []element
	for _, one := range all[:min(len(all), maxCandidates)] {
		names = append(names, one.node.element)
	}
	if len(names) == 0 {
		return element{}, fmt.Errorf("no element of the page fits %s. Take a browser_snapshot to see what there is", q)
	}
	return element{}, p.unclear(fmt.Sprintf("it is not clear which element %s is", q), names)
}

// unclear returns an error that names the candidates.
func (p finder) unclear(what string, candidates []element) error {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	lines := []string{what + "; nothing was done. Name one of these:"}
	for _, e := range candidates {
		lines = append(lines, fmt.Sprintf("%s %s", p.t.ref(e), e.describe()))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// byColor puts those first whose background, or text, has a color.
func (p finder) byColor(ctx context.Context, all []scored, color string) []scored {
	for i := range all[:min(len(all), 20)] {
		raw, err := p.on(ctx, all[i].node.element, colorScript)
		if err != nil {
			continue
		}
		var colors []string
		if json.Unmarshal(raw, &colors) == nil && slices.Contains(colors, color) {
			all[i].score += 0.3
		}
	}
	slices.SortStableFunc(all, byScore)
	return all
}

// colorScript returns the words for an element's colors.
const colorScript = `function() {
	const name = (text) => {
		const m = /rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)/.exec(text);
		if (!m || m[4] === '0') return '';
		const [r, g, b] = [m[1], m[2], m[3]].map((v) => v / 255);
		const max = Math.max(r, g, b), min = Math.min(r, g, b), l = (max + min) / 2, d = max - min;
		if (d < 0.1) return l > 0.9 ? 'white' : l < 0.15 ? 'black' : 'gray';
		let h = max === r ? ((g - b) / d) % 6 : max === g ? (b - r) / d + 2 : (r - g) / d + 4;
		h = (h * 60 + 360) % 360;
		if (h < 15 || h >= 345) return l > 0.75 ? 'pink' : 'red';
		if (h < 45) return l < 0.35 ? 'brown' : 'orange';
		if (h < 70) return 'yellow';
		if (h < 170) return 'green';
		if (h < 260) return 'blue';
		if (h < 300) return 'purple';
		return 'pink';
	};
	const s = getComputedStyle(this);
	return [name(s.backgroundColor), name(s.color), name(s.borderTopColor)].slice(0, name(s.backgroundColor) ? 1 : 2).filter(Boolean);
}`

func quote(text string) string {
	raw, _ := json.Marshal(text) //nolint:errchkjson // a string
	return string(raw)
}
