package browser

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// question is a target in parts.
type question struct {
	text string // as it was written, for words
	// role is the kind of element, empty for any, and kind the stem of the word for it.
	role, kind string
	// name is its accessible name, or a part of it; with exact it is the whole.
	name  string
	exact bool
	// words are to be in the name, and around what is to be near it.
	words  []string
	around []string
	color  string
	// states are what it is besides: checked, disabled and the like.
	states []string
	// nth is the place among equals, from 1; -1 for the last, 0 for none.
	nth int
}

func (q question) String() string {
	if q.text != "" {
		return fmt.Sprintf("%q", clean(q.text, 120))
	}
	if q.name == "" {
		return q.role
	}
	return fmt.Sprintf("%s %q", q.role, clean(q.name, 120))
}

// roleWords are the words for kinds of elements.
var roleWords = map[string]string{
	"button": "button", "btn": "button", "link": "link", "hyperlink": "link", "field": "field", "input": "field", "box": "field", "textbox": "field", "textfield": "field",
	"textarea": "field", "searchbox": "field", "checkbox": "checkbox", "check": "checkbox", "tickbox": "checkbox", "radio": "radio", "dropdown": "combobox", "select": "combobox",
	"combobox": "combobox", "picker": "picker", "spinbutton": "spinbutton", "spinner": "spinbutton", "treeitem": "treeitem", "menu": "menuitem", "menuitem": "menuitem", "tab": "tab", "slider": "slider", "switch": "switch", "toggle": "switch",
	"option": "option", "heading": "heading", "title": "heading", "image": "image", "picture": "image", "icon": "button", "row": "row", "table": "table", "file": "file",
	"dialog": "dialog", "list": "list", "date": "field", "time": "field", "number": "field",
}

// fits are the roles that a kind of element has in the accessibility tree.
var fits = map[string][]string{
	"button": {"button", "PopUpButton", "ToggleButton", "DisclosureTriangle", "menuitem"},
	"link":   {"link"},
	"field":  {"textbox", "searchbox", "spinbutton", "combobox", "TextField", "SearchBox", "Date", "DateTime", "InputTime", "ColorWell"}, "textbox": {"textbox", "searchbox", "TextField", "SearchBox"},
	"checkbox": {"checkbox", "menuitemcheckbox", "switch"}, "radio": {"radio", "menuitemradio"}, "combobox": {"combobox", "PopUpButton", "listbox"},
	"menuitem": {"menuitem", "menuitemcheckbox", "menuitemradio", "PopUpButton", "button"}, "tab": {"tab"}, "slider": {"slider"}, "switch": {"switch", "checkbox", "ToggleButton"},
	"spinbutton": {"spinbutton"}, "treeitem": {"treeitem"},
	"picker": {"combobox", "PopUpButton", "listbox", "Date", "DateTime", "InputTime", "ColorWell", "button", "textbox", "TextField"},
	"option": {"option", "MenuListOption"}, "heading": {"heading"}, "image": {"image", "img", "SvgRoot"}, "row": {"row"}, "table": {"table", "grid"}, "file": {"button"},
	"dialog": {"dialog", "alertdialog"}, "list": {"list", "listbox"},
}

func knownRole(word string) bool {
	word = strings.ToLower(word)
	return fits[word] != nil || actsOn[word] || roleWords[word] != "" || slices.Contains([]string{"heading", "row", "cell", "listitem", "img", "dialog", "region", "navigation", "main", "form", "paragraph", "text", "date", "time", "color", "iframe", "spinbutton", "searchbox", "gridcell", "columnheader", "article"}, word)
}

// fitsRole reports whether a node is of a kind.
func (n *node) fitsRole(role string) bool {
	role = strings.ToLower(role)
	if slices.Contains(fits[role], n.role) {
		return true
	}
	return roleName(n.role) == role || role == "text" && n.role == "StaticText"
}

// idle are words that say nothing about an element.
var idle = map[string]bool{
	"the": true, "a": true, "an": true, "that": true, "which": true, "says": true, "say": true, "saying": true, "labeled": true, "labelled": true, "called": true, "named": true,
	"with": true, "label": true, "text": true, "click": true, "on": true, "of": true, "to": true, "for": true, "and": true, "is": true, "element": true, "please": true, "reading": true, "this": true, "by": true,
	"your": true, "my": true,
}

// weak are words for kinds of elements that rather say what one is for if another such word
// follows: "the date button".
var weak = map[string]bool{"date": true, "time": true, "number": true, "title": true, "list": true, "icon": true, "picture": true, "menu": true}

// stateWords are words for the states of elements, as snapshots call them.
var stateWords = map[string]string{
	"checked": "checked", "ticked": "checked", "disabled": "disabled", "selected": "selected", "expanded": "expanded", "collapsed": "collapsed",
	"required": "required", "readonly": "readonly", "pressed": "pressed", "multiple": "multiple",
}

// near are words after which something else on the page is named.
var near = map[string]bool{"in": true, "inside": true, "under": true, "below": true, "next": true, "near": true, "beside": true, "within": true, "at": true, "from": true}

var colors = map[string]string{
	"red": "red", "green": "green", "blue": "blue", "yellow": "yellow", "orange": "orange", "purple": "purple", "violet": "purple", "pink": "pink", "black": "black",
	"white": "white", "gray": "gray", "grey": "gray", "brown": "brown",
}

var ordinals = map[string]int{
	"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "last": -1,
}

// commands are words for elements that begin what is to be done, too: "select Ada".
var commands = map[string]bool{"select": true, "check": true, "toggle": true, "switch": true, "pick": true, "list": true}

var (
	quoted    = regexp.MustCompile(`"([^"]+)"|“([^”]+)”|'([^']+)'`)
	numbered  = regexp.MustCompile(`^([0-9]+)(?:st|nd|rd|th)$`)
	wordsForm = regexp.MustCompile(`[\p{L}\p{N}]+`)
)

// parseWords takes a target in words apart.
func parseWords(text string) question {
	q := question{text: text}
	if m := quoted.FindStringSubmatch(text); m != nil {
		q.name = cmp.Or(m[1], m[2], m[3])
		text = strings.Replace(text, m[0], " ", 1)
	}
	target, isWeak := true, false
	all := joined(tokens(text))
	for i, word := range all {
		n := ordinals[word]
		if m := numbered.FindStringSubmatch(word); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		switch {
		case near[word] && (i > 0 || q.name != "") && i+1 < len(all) && (len(q.words) > 0 || q.name != "" || q.role != ""):
			target = false
		case !target:
			if !idle[word] && roleWords[word] == "" {
				q.around = append(q.around, stem(word))
			}
		case idle[word]:
		case n != 0 && q.nth == 0:
			q.nth = n
		case colors[word] != "" && q.color == "":
			q.color = colors[word]
			q.words = append(q.words, "?"+stem(word)) // or it is called so
		case stateWords[word] != "":
			q.states = append(q.states, stateWords[word])
			q.words = append(q.words, "?"+stem(word))
		case i == 0 && commands[word] && len(all) > 1:
			q.words = append(q.words, "?"+stem(word))
		case roleWords[word] != "":
			if q.role == "" || isWeak {
				q.role, q.kind, isWeak = roleWords[word], stem(word), weak[word]
			}
			// It may be a part of the name, too: "Menu", "Search box".
			q.words = append(q.words, "?"+stem(word))
		default:
			q.words = append(q.words, stem(word))
		}
	}
	return q
}

// scored is a candidate.
type scored struct {
	node  *node
	score float64
	place int
}

func byScore(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.place, b.place))
}

// useful is the least score of a candidate, sure the least of one that is chosen, and margin
// by how much it must be better than the next.
const (
	useful = 0.3
	sure   = 0.5
	margin = 0.08
)

// rank returns the elements that may be meant, the best first.
func rank(root *node, q question, use purpose) (out []scored) {
	place := 0
	collect(root, func(n *node) {
		place++
		if n.role == "RootWebArea" || n.backend == 0 {
			return
		}
		if s := n.score(q, use); s >= useful {
			out = append(out, scored{n, s, place})
		}
	})
	preferActs(out, q)
	slices.SortStableFunc(out, byScore)
	return out
}

// score says how well a node fits, from 0 to about 1.6.
func (n *node) score(q question, use purpose) float64 {
	if n.role == "StaticText" && (use != forLook || q.role != "" && q.role != "text") {
		return 0
	}
	switch use {
	case forText:
		if !n.fitsRole("field") && !n.can {
			return 0
		}
	case forChoice:
		if !n.fitsRole("combobox") {
			return 0
		}
	case forAction, forFiles, forLook:
	}
	if q.exact {
		if q.role != "" && !n.fitsRole(q.role) {
			return 0
		}
		switch {
		case n.name == q.name:
			return 1.2 + n.bonus(q, use)
		case strings.EqualFold(strings.Join(strings.Fields(n.name), " "), strings.Join(strings.Fields(q.name), " ")):
			return 1.1 + n.bonus(q, use)
		case q.name != "" && strings.Contains(strings.ToLower(n.name), strings.ToLower(q.name)):
			return 0.6 + 0.3*float64(len(q.name))/float64(len(n.name)) + n.bonus(q, use)
		}
		return 0
	}
	if q.nth != 0 && q.name == "" && len(q.words) > 0 && q.color == "" && onlyOptional(q.words) && q.role != "" {
		// "The third tab" is of all tabs, whatever they are called.
		if !n.fitsRole(q.role) {
			return 0
		}
		return 0.8 + q.placed(n) + q.stated(n)
	}
	score := 0.0
	name := cmp.Or(n.name, n.shortText(use))
	own := stems(name + " " + n.description)
	switch {
	case q.name != "":
		switch lower, want := strings.ToLower(name), strings.ToLower(q.name); {
		case lower == want:
			score = 1
		case strings.Contains(lower, want):
			score = 0.6 + 0.3*float64(len(want))/float64(len(lower))
		default:
			return 0
		}
	case len(q.words) == 0 && (q.role != "" || q.color != ""):
		score = 0.5
	default:
		score = overlap(q.words, own, n.nearness)
		if !q.joined() {
			// "Name" is meant for "User name", too.
			score = max(score, overlap(q.words, stemsOf(tokens(name+" "+n.description)), n.nearness))
		}
		if score == 0 && !onlyOptional(q.words) {
			// By what stands before it: a field whose label is not connected.
			score = 0.5 * overlap(q.words, stems(n.before()), nil)
			if !n.interactive() {
				score = 0
			}
		}
		if onlyOptional(q.words) {
			score = max(score, 0.5)
		}
	}
	if score == 0 {
		return 0
	}
	if q.role != "" {
		switch {
		case n.fitsRole(q.role):
			score += 0.2
		case slices.Contains(own, q.kind): // "Date" is the name of a button, too
			score -= 0.2
		default:
			score -= 0.35
		}
	}
	return score + q.placed(n) + q.stated(n) + n.bonus(q, use)
}

// placed is for what is near an element.
func (q question) placed(n *node) float64 {
	if len(q.around) == 0 {
		return 0
	}
	return 0.6*n.nearness(q.around) - 0.3
}

// stated is for the states of an element.
func (q question) stated(n *node) (score float64) {
	for _, state := range q.states {
		switch {
		case slices.Contains(n.states, state):
			score += 0.2
		case !slices.Contains(stems(n.name), stem(state)):
			score -= 0.2
		}
	}
	return score
}

// preferActs prefers what begins with what is asked for, unless something has all of its words:
// "save the notes" is the button Save rather than the field Notes, and "search orders" is the
// field of that name rather than the button Search.
func preferActs(all []scored, q question) {
	if q.exact || q.name != "" || len(q.words) < 2 || q.words[0][0] == '?' {
		return
	}
	missing := func(name []string) bool {
		return slices.ContainsFunc(q.words, func(word string) bool {
			return word[0] != '?' && !slices.ContainsFunc(name, func(have string) bool { return similar(word, have) >= 0.7 })
		})
	}
	if slices.ContainsFunc(all, func(one scored) bool { return one.node.interactive() && !missing(stems(one.node.name)) }) {
		return
	}
	for i := range all {
		n := all[i].node
		if name := stems(n.name); len(name) > 0 && similar(q.words[0], name[0]) >= 0.7 && (n.fitsRole("button") || n.fitsRole("link") || n.fitsRole("menuitem")) {
			all[i].score += 0.1
		}
	}
}

// bonus is for what is likely to be meant for a purpose.
func (n *node) bonus(_ question, use purpose) float64 {
	score := 0.0
	if use != forLook {
		if n.interactive() {
			score += 0.2
		} else {
			score -= 0.2
		}
	}
	if n.disabled {
		score -= 0.1
	}
	return score
}

func onlyOptional(words []string) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return w[0] != '?' })
}

// joined reports whether a word is one that may be written apart.
func (q question) joined() bool {
	return slices.ContainsFunc(q.words, func(w string) bool { return apart[strings.TrimPrefix(w, "?")] })
}

// apart are the stems of words that may be written apart.
var apart = func() map[string]bool {
	out := map[string]bool{}
	for _, word := range phrases {
		out[stem(word)] = true
	}
	return out
}()

// overlap says how much of the words is in a name, and of the name in the words. Words that
// begin with ? count only where they are there. Words that are not in the name count less if
// they are around it, which around reports.
func overlap(words, name []string, around func([]string) float64) float64 {
	if len(name) == 0 {
		return 0
	}
	var asked, found float64
	var missing []string
	taken := make([]bool, len(name))
	used := 0.0
	for _, word := range words {
		word, optional := strings.CutPrefix(word, "?")
		best, at := 0.0, -1
		for i, have := range name {
			if s := similar(word, have); s > best && !taken[i] {
				best, at = s, i
			}
		}
		if optional && best < 1 {
			continue
		}
		asked++
		if at < 0 {
			missing = append(missing, word)
			continue
		}
		taken[at] = true
		found += best
		used += best
	}
	if found == 0 {
		return 0
	}
	meaning, first := 0.0, -1
	for i, have := range name {
		// A number that nobody asked for is a count: "Cart (2)".
		if !idle[have] && (taken[i] || strings.Trim(have, "0123456789") != "") {
			meaning++
			if first < 0 {
				first = i
			}
		}
	}
	if len(missing) > 0 && around != nil {
		found += 0.7 * around(missing) * float64(len(missing))
	}
	recall := found / asked
	if recall < 0.5 {
		return 0
	}
	score := recall * (0.75 + 0.25*min(1, used/max(1, meaning)))
	if first >= 0 && taken[first] {
		score += 0.1 // labels begin with what they do
	}
	return score
}

// shortText is the text of a node without a name, if it is short enough to be one.
func (n *node) shortText(use purpose) string {
	if use != forLook && !n.interactive() && n.role != "listitem" && n.role != "cell" && n.role != "gridcell" && n.role != "row" {
		return ""
	}
	text := n.text()
	if len(text) > 200 {
		return ""
	}
	return text
}

// before returns the text that stands before a node.
func (n *node) before() string {
	for at := n; at.parent != nil; at = at.parent {
		i := slices.Index(at.parent.children, at)
		for j := i - 1; j >= 0; j-- {
			sibling := at.parent.children[j]
			if sibling.interactive() {
				return ""
			}
			if text := sibling.text(); text != "" {
				if len(text) > 100 {
					return "" // no label
				}
				return text
			}
		}
		if at.parent.role == "row" || at.parent.role == "form" || at.parent.role == "RootWebArea" {
			return ""
		}
	}
	return ""
}

// nearness says how much of the words is near a node, from 0 to 1: in its row, its list item,
// its group, or below the heading before it. The less else there is, the nearer they are.
func (n *node) nearness(words []string) float64 {
	const named = 0.6 // the least weight of what a container is called
	best := 0.0
	for at, below := n.parent, n; at != nil; at, below = at.parent, at {
		text := at.text()
		weight := 1 / (1 + float64(len(text))/400)
		best = max(best,
			max(weight, named)*overlapAny(words, stems(at.name+" "+roleName(at.role)+" "+at.columnHeader())),
			max(weight, named)*overlapAny(words, stems(heading(at, below))))
		if len(text) < 2000 {
			best = max(best, weight*overlapAny(words, at.stems()))
		}
		if len(text) > 20_000 {
			break
		}
	}
	return best
}

// columnHeader returns what stands above a cell in its table; empty for what is no cell, and where
// the rows differ in their cells.
func (n *node) columnHeader() string {
	if n.role != "cell" && n.role != "gridcell" || n.parent == nil || n.parent.role != "row" || n.parent.parent == nil {
		return ""
	}
	i, rows := slices.Index(n.parent.children, n), n.parent.parent.children
	if rows[0].role != "row" || len(rows[0].children) != len(n.parent.children) || rows[0].children[i].role != "columnheader" {
		return ""
	}
	return rows[0].children[i].name
}

// stems returns those of what a node says and is called.
func (n *node) stems() []string {
	if n.words == nil {
		n.words = append([]string{}, stems(n.text()+" "+n.name)...)
	}
	return n.words
}

// heading returns the last heading among a node's children before one of them.
func heading(at, child *node) string {
	for i := slices.Index(at.children, child) - 1; i >= 0; i-- {
		if at.children[i].role == "heading" {
			return at.children[i].name
		}
	}
	return ""
}

func overlapAny(words, text []string) float64 {
	found := 0
	for _, word := range words {
		if slices.ContainsFunc(text, func(have string) bool { return similar(word, have) >= 0.7 }) {
			found++
		}
	}
	return float64(found) / float64(len(words))
}

// choose returns the element that is meant, if that is clear.
func choose(all []scored, q question) (element, bool) {
	if len(all) == 0 || all[0].score < sure {
		return element{}, false
	}
	best := all[0]
	if q.nth != 0 {
		var equal []scored
		for _, one := range all {
			if best.score-one.score < margin && !within(one, equal) {
				equal = append(equal, one)
			}
		}
		slices.SortFunc(equal, func(a, b scored) int { return cmp.Compare(a.place, b.place) })
		at := q.nth - 1
		if q.nth < 0 {
			at = len(equal) - 1
		}
		if at < len(equal) {
			return equal[at].node.element, true
		}
		return element{}, false
	}
	for _, one := range all[1:] {
		if best.score-one.score >= margin {
			break
		}
		if !related(best.node, one.node) {
			return element{}, false
		}
	}
	return best.node.element, true
}

// within reports whether a candidate is a part of one of the others, or holds it.
func within(one scored, others []scored) bool {
	return slices.ContainsFunc(others, func(other scored) bool { return related(one.node, other.node) })
}

// related reports whether one node is in the other.
func related(a, b *node) bool {
	for at := a; at != nil; at = at.parent {
		if at == b {
			return true
		}
	}
	for at := b; at != nil; at = at.parent {
		if at == a {
			return true
		}
	}
	return false
}
