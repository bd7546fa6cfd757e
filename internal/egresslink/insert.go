package egresslink

import (
	"net/http"
	"strings"
)

// Insert puts the token into a request, replacing what is there.
func (t Token) Insert(out *http.Request) {
	headers := t.Headers
	if t.GitHeaders != nil && GitPath(out.URL.Path) {
		headers = t.GitHeaders
	}
	for name, value := range headers {
		SetHeader(out.Header, name, value)
	}
}

// SetHeader sets a header and removes all that a server may take for it.
func SetHeader(h http.Header, name, value string) {
	RemoveHeader(h, name)
	h.Set(name, value)
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
