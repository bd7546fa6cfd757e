package handle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// errPlace is about a handle in a place where its secret does not belong.
var errPlace = errors.New("the handle of a secret is in a part of the request where it cannot be exchanged")

// Reveal replaces the handles in a request by their secrets, and reports whether there
// were any. If it returns an error, the request must not be forwarded; it is unchanged.
// The URL of the request is absolute, as that of an intercepted one should be, or its
// host is in Request.Host.
//
// A handle is replaced in the header fields and the query that it was issued in.
func (e *Exchange) Reveal(req *http.Request, now time.Time) (bool, error) {
	if !mayHave(req) {
		return false, nil
	}
	r := revealed{e: e, now: now, found: false}
	r.use, r.useErr = useOf(req.Method, requestURL(req))
	header := req.Header.Clone()
	var err error
	for name, values := range header {
		for i := range values {
			if values[i], err = r.header(name, values[i]); err != nil {
				return false, err
			}
		}
	}
	query, err := r.query(req.URL.RawQuery)
	if err != nil {
		return false, err
	}
	// Whatever is left is not in its place: also the path, the host and the names.
	for _, rest := range []string{query, req.URL.Path, req.URL.User.String(), req.URL.Host, req.Host} {
		if handles.MatchString(rest) {
			return false, errPlace
		}
	}
	for name, values := range header {
		if handles.MatchString(strings.ToLower(name)) || slices.ContainsFunc(values, handles.MatchString) {
			return false, errPlace
		}
	}
	if !r.found {
		return false, nil
	}
	req.Header, req.URL.RawQuery = header, query
	return true, nil
}

// mayHave reports whether there may be a handle anywhere in a request: nearly all have none.
func mayHave(req *http.Request) bool {
	for name, values := range req.Header {
		// Names are canonical or as they were written.
		if len(name) >= len(kind) && strings.Contains(strings.ToLower(name), kind) {
			return true
		}
		for _, value := range values {
			if strings.Contains(value, kind) {
				return true
			}
			if plain, ok := basic(value); ok && bytes.Contains(plain, []byte(kind)) {
				return true
			}
		}
	}
	return strings.Contains(req.URL.RawQuery, kind) || strings.Contains(req.URL.Path, kind) || strings.Contains(req.URL.Host, kind) ||
		strings.Contains(req.Host, kind) || req.URL.User != nil && strings.Contains(req.URL.User.String(), kind)
}

// requestURL returns the URL of a request with its host. A host in the URL that
// differs from that in the header is taken for neither.
func requestURL(req *http.Request) *url.URL {
	u := *req.URL
	switch {
	case u.Host == "":
		u.Host = req.Host
	case req.Host != "" && !strings.EqualFold(req.Host, u.Host):
		u.Host = ""
	}
	if u.Scheme == "" {
		u.Scheme = "https"
	}
	return &u
}

// revealed is a request in work.
type revealed struct {
	e      *Exchange
	use    Use
	useErr error
	now    time.Time
	found  bool
}

// secret returns the secret of a handle.
func (r *revealed) secret(handle string) (*secret, error) {
	if r.useErr != nil {
		return nil, fmt.Errorf("the handle of a secret cannot be exchanged: the URL of the request: %w", r.useErr)
	}
	r.found = true
	return r.e.lookup(handle, r.use, r.now)
}

// header returns the value of a header field with its secret.
func (r *revealed) header(name, value string) (string, error) {
	if plain, ok := basic(value); ok && handles.Match(plain) {
		return "", errPlace
	}
	handle := handles.FindString(value)
	if handle == "" {
		return value, nil
	}
	s, err := r.secret(handle)
	if err != nil {
		return "", err
	}
	if real, known := s.headers[name]; known && value == handle {
		return real, nil
	}
	return "", errPlace
}

// basic returns the user and password of basic authentication.
func basic(value string) ([]byte, bool) {
	scheme, credentials, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return nil, false
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	return plain, err == nil
}

// query returns the query of a URL with its secrets.
func (r *revealed) query(query string) (string, error) {
	handle, alone := strings.CutPrefix(query, queryName+"=")
	if !alone || handle == "" || handles.FindString(handle) != handle {
		return query, nil
	}
	s, err := r.secret(handle)
	if err != nil {
		return "", err
	}
	if s.query == "" {
		return "", errPlace
	}
	return s.query, nil
}
