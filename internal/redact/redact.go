// Package redact keeps secrets out of every sink: logs, events, errors,
// prompts. One Redactor per process knows the values in use, in the encodings that
// programs write them in, and the shapes of keys and tokens.
package redact

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mask stands where a secret was.
const Mask = "[redacted]"

// minLength keeps short values, which occur by chance, from being masked.
const minLength = 8

// shortest is the length of the shortest text that has one of the shapes: a
// token of Slack.
const shortest = len("xoxb-0123456789")

// shapes are keys and tokens as their issuers write them.
var shapes = regexp.MustCompile(strings.Join([]string{
	`\bdh[a-z]_[0-9a-hjkmnp-tv-z]{20,}`, // ours
	`\bsk-ant-[A-Za-z0-9_-]{16,}`,       // Anthropic
	`\bsk-[A-Za-z0-9_-]{20,}`,           // OpenAI
	`\bAIza[A-Za-z0-9_-]{35}`,           // Google
	`\bgh[pousr]_[A-Za-z0-9]{36,}`,      // GitHub
	`\bgithub_pat_[A-Za-z0-9_]{22,}`,    // GitHub
	`\bglpat-[A-Za-z0-9_-]{20,}`,        // GitLab
	`\bxox[abprs]-[A-Za-z0-9-]{10,}`,    // Slack
	`\bAKIA[A-Z0-9]{16}`,                // AWS
	// A private key: to its end, or as far as its body goes.
	`-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[A-Za-z0-9+/=\s:,-]*[A-Za-z0-9+/=]{32,}[A-Za-z0-9+/=\s]*)`,
}, "|"))

// begins is how the shapes begin: looking for that is much cheaper than trying
// them. The shortest has three bytes, and goes on with one of its body.
var begins = sync.OnceValue(func() *matcher {
	patterns := []string{string(keyBegin)}
	for _, t := range tokens {
		for _, next := range t.next {
			begin := t.begin + next
			if len(begin) >= minHeld {
				patterns = append(patterns, begin)
				continue
			}
			for c, of := range t.body {
				if of {
					patterns = append(patterns, begin+string([]byte{byte(c)}))
				}
			}
		}
	}
	return newMatcher(patterns, minHeld, 2)
})

// Redactor masks the values it was told of and everything of a known shape.
// It is safe for use by many goroutines; its zero value knows the shapes only.
type Redactor struct {
	mu      sync.RWMutex
	values  []string
	matcher *matcher // of all their forms; nil for no values
}

// Add makes values known. Values under 8 bytes are ignored: they occur by
// chance.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := len(r.values)
	for _, v := range values {
		if len(v) >= minLength && !slices.Contains(r.values, v) {
			r.values = append(r.values, v)
		}
	}
	if len(r.values) == known {
		return
	}
	var all []string
	for _, v := range r.values {
		all = append(all, forms(v)...)
	}
	slices.Sort(all)
	r.matcher = newMatcher(slices.Compact(all), minLength, 3)
}

// known answers the matcher of the values; nil for none.
func (r *Redactor) known() *matcher {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.matcher
}

// String answers s with every secret masked, and as text that every sink takes:
// valid UTF-8 without NUL, U+FFFD in place of what is not.
func (r *Redactor) String(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if m := r.known(); m != nil && len(s) >= minLength {
		s = masked(m, s)
	}
	if len(s) < shortest || !has(begins(), s) {
		return s
	}
	return shapes.ReplaceAllString(s, Mask)
}

// Knows says whether a known value is in p, in any of its forms.
func (r *Redactor) Knows(p []byte) bool {
	m := r.known()
	return m != nil && has(m, p)
}

// masked answers s with Mask in the place of each known value.
func masked(m *matcher, s string) string {
	var out strings.Builder
	at := 0
	regions(m, s, func(start, end int) bool {
		out.WriteString(s[at:start])
		out.WriteString(Mask)
		at = end
		return true
	})
	if at == 0 {
		return s
	}
	out.WriteString(s[at:])
	return out.String()
}

// Value answers a copy of a JSON value (nil, bool, number, string, []any,
// map[string]any) with every secret in its strings and keys masked.
func (r *Redactor) Value(v any) any {
	switch v := v.(type) {
	case string:
		return r.String(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = r.Value(item)
		}
		return out
	case map[string]any:
		return r.Map(v)
	default:
		return v
	}
}

// Map is Value for an object; nil stays nil.
func (r *Redactor) Map(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[r.String(k)] = r.Value(v)
	}
	return out
}

// Writer masks what is written to it and passes it on. Each Write is masked by
// itself, so give it whole records, as loggers do.
func (r *Redactor) Writer(w io.Writer) io.Writer { return writer{r, w} }

type writer struct {
	r *Redactor
	w io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.String(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
