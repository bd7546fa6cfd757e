package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// words expands words to the arguments that a program gets.
func (w *walker) words(list []*syntax.Word) []Word {
	out := make([]Word, 0, len(list))
	for _, x := range list {
		if text, ok := plainWord(x); ok {
			out = append(out, Word{Text: text, Known: true})
			continue
		}
		if text, ok := extGlob(x); ok {
			out = append(out, Word{Text: text, Known: true, Glob: true})
			continue
		}
		if v, ok := w.quick(x, true); ok {
			out = append(out, v)
			continue
		}
		if first, last, ok := manyNumbers(x); ok && len(out)+3 <= maxWords {
			out = append(out, Word{Text: first, Known: true}, Word{Text: last, Known: true}, Word{Text: hole})
			continue
		}
		cfg, e := w.config(x)
		fields, err := expand.Fields(cfg, x)
		w.drawn = append(w.drawn, e.from...)
		if err != nil {
			out = append(out, Word{Text: hole})
			continue
		}
		wild := unquotedGlob(x)
		if len(fields) > maxItems && !slices.ContainsFunc(fields, func(f string) bool { return strings.Trim(f, "0123456789") != "" }) {
			// Consecutive numbers are alike: the first, the last and an unknown one
			// represent them.
			fields = []string{fields[0], fields[len(fields)-1], hole}
		}
		for _, f := range fields {
			if len(f) > maxText || len(out) >= maxWords {
				w.unclear("a command is too long")
				return append(out, Word{Text: hole})
			}
			out = append(out, Word{
				Text: f, Known: !e.guess && !holed(f), Glob: (wild || e.glob) && strings.ContainsAny(f, "*?[("),
			})
		}
	}
	return out
}

// manyNumbers returns the first and the last of consecutive numbers, such as {1..500}, if
// there are more than are walked one by one.
func manyNumbers(x *syntax.Word) (first, last string, ok bool) {
	text, found := strings.CutPrefix(x.Lit(), "{")
	if text, ok = strings.CutSuffix(text, "}"); !ok || !found {
		return "", "", false
	}
	first, last, _ = strings.Cut(text, "..")
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < 0 || to < 0 || itoa(from) != first || itoa(to) != last {
		return "", "", false
	}
	return first, last, max(from-to, to-from) >= maxItems
}

// charset is a set of ASCII characters.
type charset [256]bool

func newCharset(chars string) (s charset) {
	for i := range len(chars) {
		s[chars[i]] = true
	}
	return s
}

// in reports whether a text contains a character of the set.
func (s *charset) in(text string) bool {
	for i := range len(text) {
		if s[text[i]] {
			return true
		}
	}
	return false
}

var (
	// special are the characters that the expander interprets in unquoted text, and
	// wildcards those that make a name a pattern.
	special   = newCharset("\\{~*?[")
	wildcards = newCharset("*?[(")
)

// plainWord returns the text of a word that needs no expansion: most words are of this
// kind.
func plainWord(x *syntax.Word) (string, bool) {
	if len(x.Parts) != 1 {
		return "", false
	}
	switch part := x.Parts[0].(type) {
	case *syntax.Lit:
		return part.Value, !special.in(part.Value) && !holed(part.Value)
	case *syntax.SglQuoted:
		return part.Value, !part.Dollar
	case *syntax.DblQuoted:
		if len(part.Parts) == 1 {
			lit, ok := part.Parts[0].(*syntax.Lit)
			return litValue(lit), ok && !strings.Contains(litValue(lit), "\\")
		}
	}
	return "", false
}

// quick expands a word that consists of plain text, wildcards and variables with a known
// text, as the expander would. field reports that the word belongs to a command, where a
// variable outside of quotes may expand to several words or none; ok is false for such a
// word, and for any other that needs the expander.
func (w *walker) quick(x *syntax.Word, field bool) (out Word, ok bool) {
	if len(w.vars) > 0 {
		// The expander reads these as well.
		for _, name := range [...]string{"IFS", "PWD"} {
			if _, ok := w.vars[name]; ok {
				return Word{}, false
			}
		}
	}
	var text [8]string // usual parts
	parts, wild, sure := text[:0], false, true
	e := env{state: w.state}
	variable := func(p *syntax.ParamExp) (string, bool) {
		if !plainParameter(p) {
			return "", false
		}
		if v, set := w.vars[p.Param.Value]; set && (v.glob || len(v.from) > 0) {
			return "", false
		}
		v := e.Get(p.Param.Value)
		sure = sure && !e.guess
		return v.Str, v.Set && v.Kind == expand.String
	}
	for i, p := range x.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\\x00") || holed(p.Value) || i == 0 && p.Value != "" && p.Value[0] == '~' {
				return Word{}, false
			}
			if strings.IndexByte(p.Value, '{') >= 0 && (len(x.Parts) > 1 || strings.ContainsAny(p.Value, ",.")) {
				return Word{}, false // it may expand to several words
			}
			parts, wild = append(parts, p.Value), wild || strings.ContainsAny(p.Value, "*?[")
		case *syntax.SglQuoted:
			if p.Dollar {
				return Word{}, false
			}
			parts = append(parts, p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				switch q := q.(type) {
				case *syntax.Lit:
					if strings.ContainsAny(q.Value, "\\\x00") {
						return Word{}, false
					}
					parts = append(parts, q.Value)
				case *syntax.ParamExp:
					v, ok := variable(q)
					if !ok {
						return Word{}, false
					}
					parts = append(parts, v)
				default:
					return Word{}, false
				}
			}
		case *syntax.ParamExp:
			v, ok := variable(p)
			if !ok || field && (v == "" || strings.ContainsAny(v, " \t\n")) {
				return Word{}, false
			}
			parts, wild = append(parts, v), true
		default:
			return Word{}, false
		}
	}
	out.Text = strings.Join(parts, "")
	if len(out.Text) > maxText {
		return Word{}, false
	}
	out.Known = sure
	if field {
		out.Known = sure && !holed(out.Text)
		out.Glob = wild && strings.ContainsAny(out.Text, "*?[(")
	}
	return out, true
}

// plainParameter reports whether an expansion is that of a named variable, and no
// more.
func plainParameter(p *syntax.ParamExp) bool {
	if p.Param == nil || p.Flags != nil || p.Excl || p.Length || p.Width || p.IsSet || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0 || p.NestedParam != nil ||
		p.Index != nil || len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil {
		return false
	}
	name := p.Param.Value
	return name != "" && name != "LINENO" && (name[0] == '_' || name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z')
}

// extGlob returns a word with extglob patterns, which the shell would expand.
func extGlob(x *syntax.Word) (string, bool) {
	var b strings.Builder
	found := false
	for _, p := range x.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.ExtGlob:
			found = true
			b.WriteString(p.Op.String() + p.Pattern.Value + ")")
		default:
			return "", false
		}
	}
	return b.String(), found
}

func litValue(lit *syntax.Lit) string {
	if lit == nil {
		return ""
	}
	return lit.Value
}

// unquotedGlob reports whether wildcards in the expansion of a word are expanded in turn.
func unquotedGlob(x *syntax.Word) bool {
	for _, p := range x.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
		case *syntax.Lit:
			escaped := false
			for _, r := range p.Value {
				if !escaped && strings.ContainsRune("*?[", r) {
					return true
				}
				escaped = !escaped && r == '\\'
			}
		default:
			return true
		}
	}
	return false
}
