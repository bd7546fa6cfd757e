package httprule

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxTarget is the length of the longest request target, in bytes: about what
// common servers accept.
const MaxTarget = 8 << 10

// Path is a request target in its one reading. The zero value is no path: no
// rule matches it.
type Path struct {
	raw      string // as it is sent, without the query
	query    string // with its "?"; "" for none
	segments []segment
}

// segment is what is between two slashes. The last one is empty for a path with
// a trailing slash.
type segment struct {
	text  string // decoded
	slash bool   // an encoded slash is in it
}

// String returns the path as it must be sent, without the query.
func (p Path) String() string { return p.raw }

// Target returns the path and the query as they must be sent.
func (p Path) Target() string { return p.raw + p.query }

// Query returns the query as it was sent, without its "?".
func (p Path) Query() string { return strings.TrimPrefix(p.query, "?") }

// Apply makes u refer to the path: u.RequestURI returns Target then. Scheme,
// user and host stay what they are.
func (p Path) Apply(u *url.URL) {
	decoded, err := url.PathUnescape(p.raw)
	if err != nil {
		panic("httprule: a canonical path cannot be decoded: " + p.raw)
	}
	u.Opaque, u.Fragment, u.RawFragment = "", "", ""
	u.Path, u.RawPath = decoded, p.raw
	u.RawQuery, u.ForceQuery = p.Query(), p.query == "?"
}

// Canonical reads a request target in origin form: a path and an optional query,
// as in an HTTP/1 request line and in HTTP/2's :path. In the result, escapes have
// upper-case digits, and unreserved characters (RFC 3986, section 2.3) are not
// escaped. Everything else is as it was, the query too.
//
// The error says what is ambiguous and how to write it. The target "*" of
// OPTIONS has no path that a rule could match, and is refused as well; for a
// target in absolute form see OriginForm.
func Canonical(target string) (Path, error) {
	if len(target) > MaxTarget {
		return Path{}, fmt.Errorf("the request target has %d bytes; at most %d are accepted", len(target), MaxTarget)
	}
	raw, query, hasQuery := strings.Cut(target, "?")
	switch {
	case target == "*":
		return Path{}, errors.New("the request target is *, which no rule can match; send a path")
	case !strings.HasPrefix(raw, "/"):
		return Path{}, fmt.Errorf("the request target %.80q does not begin with a slash", target)
	}
	if hasQuery {
		if i := strings.IndexFunc(query, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }); i >= 0 {
			return Path{}, fmt.Errorf("the query has %.10q in it, which a URL cannot have; encode it", query[i:])
		}
		query = "?" + query
	}
	out := Path{query: query}
	var sent strings.Builder
	parts := strings.Split(raw[1:], "/")
	for i, part := range parts {
		sent.WriteByte('/')
		if part == "" {
			if i < len(parts)-1 {
				return Path{}, fmt.Errorf("the path %.80q has an empty segment (//); write one slash", raw)
			}
			out.segments = append(out.segments, segment{})
			break
		}
		escaped, seg, err := readSegment(part)
		if err != nil {
			return Path{}, fmt.Errorf("the path %.80q has %w", raw, err)
		}
		sent.WriteString(escaped)
		out.segments = append(out.segments, seg)
	}
	out.raw = sent.String()
	return out, nil
}

// OriginForm splits a target in absolute form, as a client sends it to a proxy
// for plain HTTP, into its authority and the target for Canonical. A path that
// is missing is "/", as RFC 9112 has it (section 3.2.1).
func OriginForm(target string) (authority, origin string, err error) {
	rest, ok := strings.CutPrefix(target, "http://")
	if !ok {
		return "", "", fmt.Errorf("the request target %.80q does not begin with http://", target)
	}
	end := strings.IndexAny(rest, `/?#\`)
	if end < 0 {
		end = len(rest)
	}
	authority, origin = rest[:end], rest[end:]
	if err := checkHost(authority); err != nil {
		return "", "", err
	}
	switch {
	case origin != "" && origin[0] != '/' && origin[0] != '?':
		return "", "", fmt.Errorf("the request target %.80q has %q after the host; write a slash", target, origin[:1])
	case origin == "" || origin[0] == '?':
		origin = "/" + origin
	}
	return authority, origin, nil
}

// readSegment returns a segment as it is sent, and decoded. The error continues
// a sentence that ends with "has".
func readSegment(part string) (sent string, seg segment, err error) {
	var escaped, text strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c != '%' {
			if !plain(c) {
				return "", segment{}, plainError(part[i:])
			}
			escaped.WriteByte(c)
			text.WriteByte(c)
			continue
		}
		if i+2 >= len(part) || unhex(part[i+1]) < 0 || unhex(part[i+2]) < 0 {
			return "", segment{}, fmt.Errorf("%.3q in it, which is not an escape; write %%25 for a percent sign", part[i:])
		}
		c = byte(unhex(part[i+1])<<4 | unhex(part[i+2])) //nolint:gosec // two hex digits
		switch {
		case c < ' ' || c == 0x7f:
			return "", segment{}, fmt.Errorf("the control character %s in it", part[i:i+3])
		case c == '\\' || c == ';':
			return "", segment{}, fmt.Errorf("%s in it: some servers read an encoded %q as a separator", part[i:i+3], string(c))
		case c == '/':
			seg.slash = true
		}
		if unreserved(c) {
			escaped.WriteByte(c)
		} else {
			escaped.WriteString(strings.ToUpper(part[i : i+3]))
		}
		text.WriteByte(c)
		i += 2
	}
	seg.text = text.String()
	return escaped.String(), seg, checkText(seg.text)
}

// checkText refuses what is ambiguous in a decoded segment.
func checkText(text string) error {
	for piece := range strings.SplitSeq(text, "/") {
		switch piece {
		case "":
			return errors.New("an empty segment, as an encoded slash (%2F) makes it at the beginning or end of a segment")
		case ".", "..":
			return fmt.Errorf("the dot segment %q; send the path that is meant", piece)
		}
	}
	for i := 0; i+2 < len(text); i++ {
		if text[i] == '%' && unhex(text[i+1]) >= 0 && unhex(text[i+2]) >= 0 {
			return fmt.Errorf("an escape that is encoded twice (%%25%s); encode it once", text[i+1:i+3])
		}
	}
	if !utf8.ValidString(text) {
		return errors.New("escapes in it that are not valid UTF-8")
	}
	if !norm.NFC.IsNormalString(text) {
		return errors.New("characters in it that are not composed; encode the text in Unicode's form NFC")
	}
	for _, c := range text {
		if c >= utf8.RuneSelf && lookalike(c) {
			return fmt.Errorf("%q (%U) in it, which some servers replace by one of . / \\ ; %%", c, c)
		}
	}
	return nil
}

// lookalike reports whether a server that converts text to another character set
// may make a character with a meaning in a path out of c: by compatibility
// decomposition, or by the "best fit" tables of Windows.
func lookalike(c rune) bool {
	switch c {
	case '\u2044', '\u2215', '\u2216', '\u29f8', '\u29f5', '\u02bc', '\u2032', '\u01c0', '\u2236', '\u0589', '\u00a5', '\u20a9':
		return true
	}
	return strings.ContainsAny(norm.NFKC.String(string(c)), `./\;%?#`)
}

func plainError(rest string) error {
	switch c := rest[0]; {
	case c == '\\':
		return errors.New(`a backslash in it, which some servers read as a slash`)
	case c == ';':
		return errors.New("a semicolon in it: some servers cut the segment there, others do not")
	case c == '#':
		return errors.New("a fragment (#) in it, which is never sent to a server; write %23 for the character")
	case c < ' ' || c == 0x7f:
		return fmt.Errorf("the control character %q in it", rest[:1])
	case c >= utf8.RuneSelf:
		return errors.New("a character in it that is not ASCII; encode it as UTF-8 with escapes, such as %C3%A9")
	default:
		return fmt.Errorf("the character %q in it; write %%%02X", rest[:1], c)
	}
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// plain reports whether c may be in a segment as it is (RFC 3986, section 3.3),
// semicolons excepted.
func plain(c byte) bool { return unreserved(c) || strings.IndexByte("!$&'()*+,=:@", c) >= 0 }

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
