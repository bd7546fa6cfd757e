package policy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// Glob is a pattern of * (within a part), ** (over parts) and ?.
type Glob struct {
	text  string
	re    *regexp.Regexp
	whole bool
}

// newGlob parses a pattern; whole reports that * also matches slashes.
func newGlob(pattern string, whole bool) (Glob, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for _, t := range globTokens(pattern, whole) {
		switch t.kind {
		case deepSlash:
			b.WriteString(`(?:.*/)?`)
		case deep:
			b.WriteString(`.*`)
		case star:
			b.WriteString(`[^/]*`)
		case one:
			b.WriteString(`[^/]`)
		default:
			b.WriteString(regexp.QuoteMeta(string(t.char)))
		}
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	return Glob{pattern, re, whole}, err
}

func (g Glob) match(s string) bool {
	return g.re == nil && g.text == s || g.re != nil && g.re.MatchString(s)
}

// kind is the kind of a token of a pattern.
type kind int

const (
	char      kind = iota
	one            // any character but a slash
	star           // any characters but slashes
	visible        // as star, with no dot at the beginning: what a shell fills in
	deep           // anything
	name           // anything without a part that begins with a dot: the content of a folder
	deepSlash      // nothing, or anything that ends with a slash
)

type token struct {
	kind kind
	char rune
}

func globTokens(pattern string, whole bool) (out []token) {
	for i := 0; i < len(pattern); {
		switch rest := pattern[i:]; {
		case strings.HasPrefix(rest, "**/") && !whole:
			out = append(out, token{kind: deepSlash})
			i += 3
		case strings.HasPrefix(rest, "**"):
			out = append(out, token{kind: deep})
			i += 2
		case rest[0] == '*' && whole:
			out = append(out, token{kind: deep})
			i++
		case rest[0] == '*':
			out = append(out, token{kind: star})
			i++
		case rest[0] == '?':
			out = append(out, token{kind: one})
			i++
		default:
			r := []rune(rest[:min(len(rest), 4)])[0]
			out = append(out, token{char: r})
			i += max(1, len(string(r)))
		}
	}
	return out
}

// wordTokens returns the tokens of a word, parts of which may be unknown or filled in by
// the shell.
func wordTokens(w shell.Word) (out []token) {
	begin := true
	for i, r := range w.Text {
		switch {
		case strings.ContainsRune(shell.Hole+shell.Unset, r) && begin && i > 0:
			out = append(out, token{kind: name})
		case strings.ContainsRune(shell.Hole+shell.Unset, r):
			out = append(out, token{kind: deep})
		case w.Glob && r == '*' && begin:
			out = append(out, token{kind: visible})
		case w.Glob && strings.ContainsRune("*()[]!|+@", r) && (r == '*' || strings.ContainsAny(w.Text[i:], "*?])(")):
			out = append(out, token{kind: star})
		case w.Glob && r == '?':
			out = append(out, token{kind: one})
		default:
			out = append(out, token{char: r})
		}
		begin = r == '/'
	}
	return out
}

// meet reports whether something fits two patterns at once.
func meet(a, b []token) bool {
	type state struct{ i, j, begun int }
	seen := map[state]bool{}
	const most = 200_000
	var walk func(s state) bool
	walk = func(s state) bool {
		if seen[s] || len(seen) > most {
			return len(seen) > most
		}
		seen[s] = true
		i, j := s.i, s.j
		if i == len(a) && j == len(b) {
			return true
		}
		// A token that matches many characters may match none.
		if i < len(a) && a[i].many() && walk(state{i + 1, j, s.begun &^ 1}) || j < len(b) && b[j].many() && walk(state{i, j + 1, s.begun &^ 2}) {
			return true
		}
		if i == len(a) || j == len(b) {
			return false
		}
		x, y := a[i], b[j]
		if !x.takes(y, s.begun&1 != 0) || !y.takes(x, s.begun&2 != 0) {
			return false
		}
		next := state{i + 1, j + 1, 0}
		switch {
		case x.many() && y.many():
			return false // the case that only one of them advances is covered above
		case x.many():
			next = state{i, j + 1, 1}
		case y.many():
			next = state{i + 1, j, 2}
		}
		if x == slash || y == slash {
			next.begun = 0 // a name begins
		}
		return walk(next)
	}
	return walk(state{})
}

var slash = token{char: '/'}

func (t token) many() bool { return t.kind >= star }

// takes reports whether a token may match a character that another one matches.
func (t token) takes(o token, begun bool) bool {
	switch t.kind {
	case char:
		return o.kind != char || t.char == o.char
	case one, star:
		return o.kind != char || o.char != '/'
	case name:
		return begun || o.kind != char || o.char != '.'
	case visible:
		return o.kind != char || o.char != '/' && (begun || o.char != '.')
	}
	return true
}

// fits reports whether a word, parts of which may be unknown, matches.
func (g Glob) fits(w shell.Word) answer {
	if w.Known && !w.Glob {
		if g.match(w.Text) {
			return yes
		}
		return no
	}
	if g.text == "*" || g.text == "**" {
		return yes
	}
	tokens := []token(nil)
	if g.re == nil {
		for _, r := range g.text {
			tokens = append(tokens, token{char: r})
		}
	} else {
		tokens = globTokens(g.text, g.whole)
	}
	word := wordTokens(w)
	for _, one := range variants(tokens, 4) {
		if meet(one, word) {
			return maybe
		}
	}
	return no
}

// variants returns a pattern with and without the folders that each **/ may match.
func variants(tokens []token, most int) [][]token {
	i := slices.IndexFunc(tokens, func(t token) bool { return t.kind == deepSlash })
	if i < 0 || most == 0 {
		return [][]token{tokens}
	}
	var out [][]token
	for _, rest := range variants(tokens[i+1:], most-1) {
		out = append(out, slices.Concat(tokens[:i], rest), slices.Concat(tokens[:i], []token{{kind: deep}, {char: '/'}}, rest))
	}
	return out
}

// fitsFile is fits for a file; a folder that is taken with all below it fits what
// lies there.
func (g Glob) fitsFile(f shell.Operand) answer {
	m := g.fits(f.Word)
	if m == yes || !f.Tree || !f.Known || f.Glob {
		return m
	}
	fixed := g.text
	if i := strings.IndexAny(fixed, "*?"); i >= 0 && g.re != nil {
		fixed = fixed[:i]
	}
	under := strings.TrimSuffix(f.Text, "/") + "/"
	switch {
	case !strings.HasPrefix(fixed, under):
		return m
	case f.Access == shell.Writes || fixed == under:
		return yes
	case f.Text == shell.Workspace || strings.HasPrefix(f.Text, shell.Workspace+"/"):
		return m // a pattern over the whole workspace is not about one folder of it
	}
	return maybe
}

func anyGlob(globs []Glob, s string) bool {
	return slices.ContainsFunc(globs, func(g Glob) bool { return g.match(s) })
}
