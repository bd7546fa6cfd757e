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

// forms answers a value as programs write it: as it is, and in JSON, URLs, hex and
// base64, there also in the middle of something longer, such as the header of a
// login.
func forms(value string) []string {
	out := []string{value}
	add := func(form string) {
		if len(form) >= minLength && !slices.Contains(out, form) {
			out = append(out, form)
		}
	}
	for _, html := range []bool{false, true} {
		once := quoted(value, html)
		add(once)
		add(quoted(once, html)) // JSON in JSON
	}
	for _, escaped := range []string{url.QueryEscape(value), url.PathEscape(value)} {
		add(escaped)
		add(percent.ReplaceAllStringFunc(escaped, strings.ToLower))
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

// quoted answers the inside of a JSON string.
func quoted(value string, html bool) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(html)
	if e.Encode(value) != nil {
		return value
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(out.String()), `"`), `"`)
}
