package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// jsonDepth is how many times over a value may be in JSON: what a model writes has
// JSON in the JSON of its arguments, and that is in the JSON of its turn.
const jsonDepth = 3

// Forms returns a value as programs write it: as it is, and in JSON, URLs, hex and
// base64, there also in the middle of something longer, such as the header of a
// login. Forms that are shorter than 8 bytes are left out.
func Forms(value string) []string {
	var out []string
	add := func(form string) {
		if len(form) >= minLength && !slices.Contains(out, form) {
			out = append(out, form)
		}
	}
	for _, text := range []string{value, url.QueryEscape(value), url.PathEscape(value)} {
		add(text)
		add(percent.ReplaceAllStringFunc(text, strings.ToLower))
	}
	inner := 0 // what is not in JSON yet, or once less
	for range jsonDepth {
		level := out[inner:]
		inner = len(out)
		for _, text := range level {
			add(quoted(text, false))
			add(quoted(text, true))
		}
	}
	add(hex.EncodeToString([]byte(value)))
	add(strings.ToUpper(hex.EncodeToString([]byte(value))))
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			// The characters that the value alone decides.
			from, to := (8*before+5)/6, 8*(before+len(value))/6
			add(alphabet.EncodeToString(append(make([]byte, before), value...))[from:to])
		}
	}
	return out
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// quoted returns the inside of a JSON string.
func quoted(value string, html bool) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(html)
	if e.Encode(value) != nil {
		return value
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(out.String()), `"`), `"`)
}
