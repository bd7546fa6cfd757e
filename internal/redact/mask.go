package redact

import (
	"bytes"

	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

// MaskReach is how far apart the beginning and the end of a secret may be for
// Mask to know it whole. What is longer is masked as far as its shape is
// known.
const MaskReach = 16 << 10

// minHeld is how much of a secret must be at the end of the bytes for them to
// be held back: a shorter part reveals nothing.
const minHeld = 4

// token is a key or token as its issuer writes it: begin, one of next, and at
// least least bytes of body.
type token struct {
	begin string
	next  []string
	body  [256]bool
	least int
}

const (
	digits  = "0123456789"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = upper + "abcdefghijklmnopqrstuvwxyz"
	base32  = digits + "abcdefghjkmnpqrstvwxyz"
)

// tokens are the shapes of redact.go, but for private keys. What is masked in
// place may continue for as long as its body does.
var tokens = []token{
	newToken("dh", each(letters[26:], "_"), base32, 20),
	newToken("sk-", []string{"ant-"}, letters+digits+"_-", 16),
	newToken("sk-", []string{""}, letters+digits+"_-", 20),
	newToken("AIza", []string{""}, letters+digits+"_-", 35),
	newToken("gh", each("pousr", "_"), letters+digits, 36),
	newToken("github_pat_", []string{""}, letters+digits+"_", 22),
	newToken("glpat-", []string{""}, letters+digits+"_-", 20),
	newToken("xox", each("abprs", "-"), letters+digits+"-", 10),
	newToken("AKIA", []string{""}, upper+digits, 16),
}

func newToken(begin string, next []string, body string, least int) token {
	t := token{begin: begin, next: next, least: least}
	for i := range len(body) {
		t.body[body[i]] = true
	}
	return t
}

func each(first, then string) []string {
	var out []string
	for _, c := range first {
		out = append(out, string(c)+then)
	}
	return out
}

// Mask masks every secret in p in place, each line of it by a marker of the same
// length, so that offsets hold. It returns how many bytes of p are settled: the
// rest is the beginning of what may become a secret with the bytes that come
// after p, and is at most MaskReach long.
//
// To mask a stream in parts, begin each part MaskReach bytes early and pass
// over what is not settled until more is there.
func (r *Redactor) Mask(p []byte) (settled int) {
	open := len(p)
	if m := r.known(); len(m) > 0 {
		eachRegion(m, p, func(start, end int) bool {
			mark(p[start:end])
			return true
		})
		open = m.open(p)
	}
	if begun := textmatch.Has(begins(), p); begun || len(p) <= MaskReach {
		for i := range tokens {
			open = min(open, tokens[i].mask(p))
		}
		open = min(open, maskKeys(p))
	} else {
		// What begins at its end, if anything does, is not complete yet.
		tail := p[len(p)-MaskReach:]
		for i := range tokens {
			open = min(open, len(p)-len(tail)+tokens[i].mask(tail))
		}
		open = min(open, len(p)-len(tail)+maskKeys(tail))
	}
	return max(open, len(p)-MaskReach, 0)
}

// MaskValues is Mask of the known values alone: for text whose shapes were masked
// before it came here.
func (r *Redactor) MaskValues(p []byte) (settled int) {
	m := r.known()
	if len(m) == 0 {
		return len(p)
	}
	eachRegion(m, p, func(start, end int) bool {
		mark(p[start:end])
		return true
	})
	return max(m.open(p), len(p)-MaskReach, 0)
}

// Reach returns how long the longest form of a known value is, at most MaskReach;
// 0 where no value is known.
func (r *Redactor) Reach() (longest int) {
	for _, m := range r.known() {
		longest = max(longest, m.Longest())
	}
	return min(longest, MaskReach)
}

// unfinished returns where the longest beginning of whole is that p ends in.
func unfinished(p, whole []byte) int {
	for n := min(len(whole)-1, len(p)); n >= minHeld; n-- {
		if bytes.HasSuffix(p, whole[:n]) {
			return len(p) - n
		}
	}
	return len(p)
}

// mask masks what has the token's shape and returns where an unfinished one
// begins.
func (t *token) mask(p []byte) (open int) {
	open = unfinished(p, []byte(t.begin+"x"))
	for at := 0; ; {
		i := bytes.Index(p[at:], []byte(t.begin))
		if i < 0 {
			return open
		}
		start := at + i
		at = start + len(t.begin)
		for _, next := range t.next {
			rest := p[start+len(t.begin):]
			if len(rest) < len(next) && bytes.HasPrefix([]byte(next), rest) {
				open = min(open, t.held(p, start))
				continue
			}
			if !bytes.HasPrefix(rest, []byte(next)) {
				continue
			}
			end := start + len(t.begin) + len(next)
			body := end
			for end < len(p) && t.body[p[end]] {
				end++
			}
			switch {
			case end-body >= t.least:
				mark(p[start:end])
				at = end
			case end == len(p):
				open = min(open, t.held(p, start))
			}
		}
	}
}

func (t *token) held(p []byte, start int) int {
	if len(p)-start < minHeld {
		return len(p)
	}
	return start
}

var (
	keyBegin = []byte("-----BEGIN ")
	keyTitle = []byte("PRIVATE KEY-----")
)

// maxTitle bounds what is between BEGIN and PRIVATE KEY.
const maxTitle = 32

// maskKeys masks private keys as PEM writes them: from the title on whatever a
// key is made of, be there an end to it or not. The line that ends it is not
// secret.
func maskKeys(p []byte) (open int) {
	open = unfinished(p, append(keyBegin, 'x'))
	for at := 0; ; {
		i := bytes.Index(p[at:], keyBegin)
		if i < 0 {
			return open
		}
		start := at + i
		at = start + len(keyBegin)
		line := p[at:min(len(p), at+maxTitle+len(keyTitle))]
		title := bytes.Index(line, keyTitle)
		if title < 0 {
			if bytes.IndexByte(line, '\n') < 0 && len(line) < maxTitle+len(keyTitle) {
				open = min(open, start)
			}
			continue
		}
		end := at + title + len(keyTitle)
		for end < len(p) && ofKey(p[end]) {
			end++
		}
		mark(p[start:end])
		at = end
	}
}

// ofKey reports whether a byte can be in the body of a key: base64, and the
// headers of an encrypted one. A dash ends it.
func ofKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '+' || c == '/' || c == '=' || c == '\n' || c == '\r' || c == ' ' || c == ':' || c == ',' || c == '\\'
}
