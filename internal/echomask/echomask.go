// Package echomask removes credentials that a server repeats in its response,
// such as a debugging endpoint that returns the request's header fields.
//
// A Masker is made of the secrets that were inserted into a request. Response
// masks the header fields, the body and the trailers of an http.Response; Header
// and Wrap do it for parts. The body is searched as it streams, in flat memory.
// What is found is replaced by as many stars in text; in other types, where that
// would break the content in silence, the body ends with ErrEcho before the
// secret.
//
// This is a best effort against accidents and simple tricks. Found are the
// secret itself and the forms in which programs usually write it: JSON, URLs,
// HTML, hex and base64, the latter also inside of something longer, such as
// "user:secret" of HTTP's basic authentication. Not found are a secret in other
// encodings or character sets, in compressed archives, in parts of it, in what
// comes after a protocol switch, and in what Skip skips. The first three bytes of a
// secret pass if the server pauses after them.
package echomask

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

// MinSecret is the length of the shortest value that is searched for, in bytes:
// shorter ones occur by chance. It is also that of the shortest form of a value.
const MinSecret = 12

// ErrEcho is wrapped by the error of a body that repeats a secret and is not
// text.
var ErrEcho = errors.New("the response repeats a credential")

// Secret is a value that a server must not give back.
type Secret struct {
	// Name is what errors call it.
	Name string
	// Value is what is searched for; ignored if it is shorter than MinSecret.
	Value string
}

// Masker finds secrets. It is safe for use by many goroutines, and never changes.
type Masker struct {
	matcher *textmatch.Matcher // nil for no secrets
	secrets []forms
}

type forms struct {
	name string
	text []string
}

// Of returns a Masker of the values of one secret.
func Of(name string, values []string) *Masker {
	all := make([]Secret, 0, len(values))
	for _, value := range values {
		all = append(all, Secret{Name: name, Value: value})
	}
	return New(all)
}

// New returns a Masker of secrets. Without any that are long enough, it changes
// nothing.
func New(secrets []Secret) *Masker {
	m := &Masker{}
	var needles []string
	for _, s := range secrets {
		if len(s.Value) < MinSecret {
			continue
		}
		text := needlesOf(s.Value)
		if len(text) > 0 {
			m.secrets = append(m.secrets, forms{s.Name, text})
			needles = append(needles, text...)
		}
	}
	slices.Sort(needles)
	if needles = slices.Compact(needles); len(needles) > 0 {
		m.matcher = textmatch.New(needles, MinSecret, 3)
	}
	return m
}

// needlesOf returns the forms of a value that are searched for. A value of
// stars alone would be masked by itself.
func needlesOf(value string) []string {
	if strings.Trim(value, "*") == "" {
		return nil
	}
	out := append(redact.Forms(value), html.EscapeString(value))
	if quoted, err := json.Marshal(value); err == nil {
		// PHP escapes slashes.
		out = append(out, strings.ReplaceAll(strings.Trim(string(quoted), `"`), "/", `\/`))
	}
	return slices.DeleteFunc(out, func(form string) bool { return len(form) < MinSecret })
}

// names adds those of the secrets in text that are not in known.
func (m *Masker) names(known []string, text []byte) []string {
	for _, s := range m.secrets {
		if !slices.Contains(known, s.name) && slices.ContainsFunc(s.text, func(form string) bool { return bytes.Contains(text, []byte(form)) }) {
			known = append(known, s.name)
		}
	}
	return known
}

// Header masks the values of header fields, or trailers, in place, and returns
// the names of the secrets that were there.
func (m *Masker) Header(h http.Header) (echoed []string) {
	for _, values := range h {
		for i, v := range values {
			values[i], echoed = m.text(v, echoed)
		}
	}
	return echoed
}

// text returns text with stars, and echoed with the names of what was there.
func (m *Masker) text(text string, echoed []string) (string, []string) {
	if m.matcher == nil || len(text) < MinSecret {
		return text, echoed
	}
	p := []byte(text)
	textmatch.Regions(m.matcher, p, func(start, end int) bool {
		echoed = m.names(echoed, p[start:end])
		stars(p[start:end])
		return true
	})
	return string(p), echoed
}

func stars(p []byte) {
	for i := range p {
		p[i] = '*'
	}
}
