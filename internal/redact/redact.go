// Package redact keeps secrets out of every sink: logs, events, errors,
// prompts. One Redactor per process knows the values in use and the shapes of
// keys and tokens.
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

// marked says that s may have one of the shapes: looking for how they begin is
// much cheaper than trying them.
func marked(s string) bool {
	return strings.Contains(s, "-----BEGIN ") || slices.ContainsFunc(tokens, func(t token) bool { return strings.Contains(s, t.begin) })
}

// Redactor masks the values it was told of and everything of a known shape.
// It is safe for use by many goroutines; its zero value knows the shapes only.
type Redactor struct {
	mu       sync.RWMutex
	values   []string
	replacer *strings.Replacer
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
	// Longest first, so that a value that contains another is masked whole.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(r.values))
	for _, v := range r.values {
		pairs = append(pairs, v, Mask)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// String answers s with every secret masked, and as text that every sink takes:
// valid UTF-8 without NUL, U+FFFD in place of what is not.
func (r *Redactor) String(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if r != nil && len(s) >= minLength {
		r.mu.RLock()
		replacer := r.replacer
		r.mu.RUnlock()
		if replacer != nil {
			s = replacer.Replace(s)
		}
	}
	if len(s) < shortest || !marked(s) {
		return s
	}
	return shapes.ReplaceAllString(s, Mask)
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
