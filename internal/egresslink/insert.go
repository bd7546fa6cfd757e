package egresslink

import (
	"net/http"
	"net/url"
	"strings"
)

// Insert puts the token into a request, in the place of what is there.
func (t Token) Insert(out *http.Request) {
	headers := t.Headers
	if t.GitHeaders != nil && GitPath(out.URL.Path) {
		headers = t.GitHeaders
	}
	for name, value := range headers {
		RemoveHeader(out.Header, name)
		out.Header.Set(name, value)
	}
	if len(t.Query) > 0 {
		out.URL.RawQuery = replaceQuery(out.URL.RawQuery, t.Query)
	}
}

// RemoveHeader removes a header in every spelling that a server may take for it: some take
// an underscore for a dash.
func RemoveHeader(h http.Header, name string) {
	plain := strings.ReplaceAll(name, "_", "-")
	for have := range h {
		if strings.EqualFold(strings.ReplaceAll(have, "_", "-"), plain) {
			delete(h, have)
		}
	}
}

// replaceQuery removes parameters from a query, however they are escaped, and adds those
// with these values. The others stay as they are written.
func replaceQuery(raw string, values map[string]string) string {
	var kept []string
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if _, ok := values[name]; !ok {
			kept = append(kept, part)
		}
	}
	added := url.Values{}
	for name, value := range values {
		added.Set(name, value)
	}
	return strings.Join(append(kept, added.Encode()), "&")
}
