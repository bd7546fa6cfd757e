// Package redact removes secrets from logs, events, errors and prompts. A
// process has one Redactor. It knows the secret values in use, also in the
// encodings in which programs write them, and recognises the formats of keys
// and tokens.
package redact

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

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
// them. The shortest has three bytes, and continues with one of its body.
var begins = sync.OnceValue(func() *textmatch.Matcher {
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
	return textmatch.New(patterns, minHeld, 2)
})

// Redactor masks the values it knows and everything of a known shape. It is
// safe for use by many goroutines, and no reader waits for a writer; its zero
// value knows the shapes only.
//
// A process has one. What belongs to an organisation is given to Org's: each of
// those masks its own organisation's values and the process's, so that no
// organisation changes, or learns from, what another one sees. The process's
// own masks all of them: it is for the process's log, which only its operator
// reads.
type Redactor struct {
	process *Redactor // whose organisation this is of; nil for the process's own
	own     values
	others  values     // of all organisations together; of the process's own only
	mu      sync.Mutex // of orgs, and of the order in which others learn of own's changes
	orgs    map[string]*Redactor
}

// Org returns the Redactor of an organisation: always the same one.
func (r *Redactor) Org(id string) *Redactor {
	if r == nil {
		return nil
	}
	if r.process != nil {
		return r.process.Org(id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	org := r.orgs[id]
	if org == nil {
		org = &Redactor{process: r}
		if r.orgs == nil {
			r.orgs = map[string]*Redactor{}
		}
		r.orgs[id] = org
	}
	return org
}

// Add makes values known for good. Values under 8 bytes are ignored: they occur
// by chance.
func (r *Redactor) Add(values ...string) {
	r.own.add(values)
	if r.process != nil {
		r.process.others.add(values)
	}
}

// Learn makes values known as what a source has, such as a trigger with its
// secrets, besides those that it had. Values that are known already cost a look
// and no lock.
func (r *Redactor) Learn(source string, values ...string) {
	if r.own.has(source, values) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fresh := r.own.learn(source, values); r.process != nil {
		r.process.others.change(fresh, nil)
	}
}

// Forget forgets values of a source, unless another source has them too; without
// values all that the source has.
func (r *Redactor) Forget(source string, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone := r.own.forget(source, values); r.process != nil {
		r.process.others.change(nil, gone)
	}
}

// Sources returns what each source has.
func (r *Redactor) Sources() map[string][]string {
	out := map[string][]string{}
	r.own.sources.Range(func(source, list any) bool {
		out[source.(string)] = slices.Clone(list.([]string))
		return true
	})
	return out
}

// Orgs calls do with each organisation's Redactor.
func (r *Redactor) Orgs(do func(id string, org *Redactor)) {
	r.mu.Lock()
	orgs := maps.Clone(r.orgs)
	r.mu.Unlock()
	for id, org := range orgs {
		do(id, org)
	}
}

// Len returns how many values are known.
func (r *Redactor) Len() (n int) {
	for _, m := range r.known() {
		n += m.values
	}
	return n
}

// known returns the matchers of the values; none for no values.
func (r *Redactor) known() matchers {
	if r == nil {
		return nil
	}
	own, more := r.own.now(), r.others.now()
	if r.process != nil {
		more = r.process.own.now()
	}
	switch {
	case len(more) == 0:
		return own
	case len(own) == 0:
		return more
	}
	return slices.Concat(own, more)
}

// String returns s with every secret masked, and as text that every sink takes:
// valid UTF-8 without NUL, U+FFFD instead of what is not.
func (r *Redactor) String(s string) string {
	s = storable(s)
	if m := r.known(); len(m) > 0 && len(s) >= minLength {
		s = masked(m, s)
	}
	if len(s) < shortest || !textmatch.Has(begins(), s) {
		return s
	}
	return shapes.ReplaceAllString(s, Mask)
}

// storable returns s as text that every sink takes.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Knows reports whether a known value is in p, in any of its forms.
func (r *Redactor) Knows(p []byte) bool {
	return slices.ContainsFunc(r.known(), func(m *matcher) bool { return textmatch.Has(m.Matcher, p) })
}

// masked returns s with Mask instead of each known value.
func masked(m matchers, s string) string {
	var out strings.Builder
	at := 0
	eachRegion(m, s, func(start, end int) bool {
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

// Value returns a copy of a JSON value (nil, bool, number, string, []any,
// map[string]any) with every secret in its strings masked. Keys are names: they
// stay what they are, except for a token or key of a known shape.
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
		out[unshaped(k)] = r.Value(v)
	}
	return out
}

// unshaped returns a key without what has the shape of a secret, as text that
// every sink takes.
func unshaped(key string) string {
	key = storable(key)
	if len(key) < shortest || !textmatch.Has(begins(), key) {
		return key
	}
	return shapes.ReplaceAllString(key, Mask)
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
