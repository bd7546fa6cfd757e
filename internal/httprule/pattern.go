package httprule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pattern says which requests a rule is about. Parse makes one; the zero value
// matches nothing.
type Pattern struct {
	// Methods are those that it names; none means all.
	Methods []string
	// Operations are the types of GraphQL operations that it names: query,
	// mutation or subscription. None means that it is about any request.
	Operations []string
	template   []part
}

type kind int

const (
	literal  kind = iota
	anything      // * and {name}
	opaque        // {name%2F}
	rest          // **
)

// part is what a template has for a segment, or for all that remain.
type part struct {
	kind kind
	raw  string // as it is written
	text string // of a literal, decoded
}

// slashMark at the end of a name says that a segment may have encoded slashes.
const slashMark = "%2F"

var operationTypes = []string{"query", "mutation", "subscription"}

// Parse reads a pattern: methods, a path template, and types of GraphQL
// operations, of which methods and types may be absent.
//
//	GET /repos/{owner}/{repo}/**
//	GET,HEAD /x/*
//	* /health
//	/any/method/too
//	POST /graphql query,subscription
//
// In a template, {name} and * are one segment that is not empty, and ** at the
// end is any number of segments, none included: /a/** also matches /a and /a/.
// {name%2F} is one segment in which encoded slashes may be. Everything else is
// literal, in a URL's notation: %2A is a literal star. A trailing slash is
// significant.
func Parse(text string) (Pattern, error) {
	fields := strings.Fields(text)
	var out Pattern
	if len(fields) == 0 {
		return out, errors.New(`the rule is empty; write a method and a path, such as "GET /repos/**"`)
	}
	if !strings.HasPrefix(fields[0], "/") {
		methods, err := parseMethods(fields[0])
		if err != nil {
			return Pattern{}, fmt.Errorf("rule %.200q: %w", text, err)
		}
		out.Methods, fields = methods, fields[1:]
		if len(fields) == 0 {
			return Pattern{}, fmt.Errorf("rule %.200q has no path; write one after the method, such as /repos/**", text)
		}
	}
	var err error
	if out.template, err = parseTemplate(fields[0]); err != nil {
		return Pattern{}, fmt.Errorf("rule %.200q: %w", text, err)
	}
	if len(fields) > 2 {
		return Pattern{}, fmt.Errorf("rule %.200q has %.40q after the GraphQL operations; separate methods and operations by commas without blanks", text, fields[2])
	}
	if len(fields) == 2 {
		if out.Operations, err = parseOperations(fields[1]); err != nil {
			return Pattern{}, fmt.Errorf("rule %.200q: %w", text, err)
		}
	}
	return out, nil
}

func parseMethods(text string) ([]string, error) {
	if text == "*" {
		return nil, nil
	}
	methods := strings.Split(text, ",")
	for i, m := range methods {
		switch {
		case m == "":
			return nil, errors.New("a method is empty; write methods as GET,HEAD and the path with a slash at its beginning")
		case m == "*":
			return nil, errors.New("* stands for all methods; leave out the others")
		case !validMethod(m) && validMethod(strings.ToUpper(m)):
			return nil, fmt.Errorf("methods are case-sensitive; write %.40s instead of %.40s", strings.ToUpper(m), m)
		case !validMethod(m):
			return nil, fmt.Errorf("%.40q is not a method; write methods as GET,HEAD and the path with a slash at its beginning", m)
		case slices.Contains(methods[:i], m):
			return nil, fmt.Errorf("the method %.40s is there twice; leave out one", m)
		}
	}
	return methods, nil
}

// validMethod reports whether m is a method in upper-case letters, such as
// VERSION-CONTROL. Servers that do not care about case make others ambiguous.
func validMethod(m string) bool {
	return m != "" && len(m) <= 40 && strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" && m[0] != '-' && m[len(m)-1] != '-'
}

func parseOperations(text string) ([]string, error) {
	types := strings.Split(text, ",")
	for i, t := range types {
		switch {
		case !slices.Contains(operationTypes, t):
			return nil, fmt.Errorf("%.40q is not a type of a GraphQL operation; write query, mutation or subscription", t)
		case slices.Contains(types[:i], t):
			return nil, fmt.Errorf("the operation type %s is there twice; leave out one", t)
		}
	}
	return types, nil
}

func parseTemplate(text string) ([]part, error) {
	switch {
	case !strings.HasPrefix(text, "/"):
		return nil, fmt.Errorf("the path %.80q does not begin with a slash; write methods as GET,HEAD without blanks", text)
	case strings.Contains(text, "?"):
		return nil, fmt.Errorf("the path %.80q has a query; rules are about the path, leave out ? and what follows", text)
	case len(text) > MaxTarget:
		return nil, fmt.Errorf("the path has %d bytes; at most %d are possible", len(text), MaxTarget)
	}
	segments := strings.Split(text[1:], "/")
	out := make([]part, len(segments))
	for i, s := range segments {
		p, err := parsePart(s, i == len(segments)-1)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func parsePart(s string, last bool) (part, error) {
	name, braced := strings.CutPrefix(s, "{")
	switch {
	case s == "**" && !last:
		return part{}, errors.New("** is only possible at the end of a path; write * or {name} for one segment")
	case s == "**":
		return part{kind: rest, raw: s}, nil
	case s == "*":
		return part{kind: anything, raw: s}, nil
	case s == "" && !last:
		return part{}, errors.New("the path has an empty segment (//); write one slash")
	case s == "":
		return part{kind: literal}, nil
	case braced:
		name, closed := strings.CutSuffix(name, "}")
		name, slashes := strings.CutSuffix(name, slashMark)
		if !closed || !validName(name) {
			return part{}, fmt.Errorf("%.80q is not {name}; a name has letters, digits and underscores, and is a whole segment", s)
		}
		if slashes {
			return part{kind: opaque, raw: s}, nil
		}
		return part{kind: anything, raw: s}, nil
	case strings.ContainsAny(s, "*{}"):
		return part{}, fmt.Errorf("%.80q is neither literal nor a whole {name} or *; write %%2A, %%7B and %%7D for the characters * { }", s)
	}
	_, seg, err := readSegment(s)
	if err != nil {
		return part{}, fmt.Errorf("the path has %w", err)
	}
	if seg.slash {
		return part{}, fmt.Errorf("%.80q has an encoded slash, which a literal never matches; write {name%s} for the segment", s, slashMark)
	}
	return part{kind: literal, raw: s, text: seg.text}, nil
}

func validName(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// String returns the pattern as Parse reads it; "" for the zero value.
func (p Pattern) String() string {
	if len(p.template) == 0 {
		return ""
	}
	var out strings.Builder
	if len(p.Methods) > 0 {
		out.WriteString(strings.Join(p.Methods, ",") + " ")
	}
	for _, part := range p.template {
		out.WriteString("/" + part.raw)
	}
	if len(p.Operations) > 0 {
		out.WriteString(" " + strings.Join(p.Operations, ","))
	}
	return out.String()
}

// MarshalText is String.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is Parse; an empty text is the zero value.
func (p *Pattern) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Pattern{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

// Covers reports whether the pattern's methods and template match a request,
// exactly: for what allows something, or says where a credential may be sent.
// Operations are not considered.
func (p Pattern) Covers(method string, path Path) bool {
	if len(p.Methods) > 0 && !slices.Contains(p.Methods, method) {
		return false
	}
	return match(p.template, path.segments, func(part part, s segment) bool {
		switch part.kind {
		case literal:
			return !s.slash && part.text == s.text
		case opaque:
			return s.text != ""
		default:
			return !s.slash && s.text != ""
		}
	})
}

// Touches reports whether the pattern's methods and template match what a
// lenient server may take a request for: for what denies something. Operations
// are not considered. What a pattern covers it also touches.
func (p Pattern) Touches(method string, path Path) bool {
	if len(p.Methods) > 0 && !slices.Contains(p.Methods, method) && (method != "HEAD" || !slices.Contains(p.Methods, "GET")) {
		return false
	}
	template := p.template
	if n := len(template); n > 1 && template[n-1] == (part{}) {
		template = template[:n-1]
	}
	readings := [][]segment{path.segments}
	if slices.ContainsFunc(path.segments, func(s segment) bool { return s.slash }) {
		readings = append(readings, split(path.segments))
	}
	return slices.ContainsFunc(readings, func(segments []segment) bool {
		if n := len(segments); n > 1 && segments[n-1].text == "" {
			segments = segments[:n-1]
		}
		return match(template, segments, func(part part, s segment) bool {
			if part.kind == literal {
				return strings.EqualFold(strings.TrimRight(part.text, ". "), strings.TrimRight(s.text, ". "))
			}
			return s.text != ""
		})
	})
}

// split reads encoded slashes as separators.
func split(segments []segment) []segment {
	var out []segment
	for _, s := range segments {
		for text := range strings.SplitSeq(s.text, "/") {
			out = append(out, segment{text: text})
		}
	}
	return out
}

// match compares a template with segments, one by one; whatever ** stands for is
// not compared.
func match(template []part, segments []segment, equal func(part, segment) bool) bool {
	for i, part := range template {
		if part.kind == rest {
			return len(segments) > 0
		}
		if i >= len(segments) || !equal(part, segments[i]) {
			return false
		}
	}
	return len(template) > 0 && len(template) == len(segments)
}
