package handle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxForm is the length of a form, in bytes, that handles are looked for in.
const maxForm = 64 << 10

// errPlace is about a handle in a place where its secret does not belong.
var errPlace = errors.New("the handle of a secret is in a part of the request where it cannot be exchanged")

// Reveal replaces the handles in a request by their secrets, and reports whether there
// were any. If it returns an error, the request must not be forwarded; it is unchanged.
// The URL of the request is absolute, as that of an intercepted one should be, or its
// host is in Request.Host.
//
// A handle of an LFS action is replaced in the header fields and the query that it was
// issued in. A handle of a token is replaced as the value of a header field, after the
// word for a scheme (Authorization: Bearer HANDLE), as user name or password of basic
// authentication, as the value of a query parameter, and as a value in a form of at
// most 64 KiB (grant_type=refresh_token).
func (e *Exchange) Reveal(req *http.Request, now time.Time) (bool, error) {
	form, err := e.form(req)
	if err != nil {
		return false, err
	}
	r := revealed{e: e, now: now, found: false}
	r.use, r.useErr = useOf(req.Method, requestURL(req))
	header := req.Header.Clone()
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
	body, err := r.values(form)
	if err != nil {
		return false, err
	}
	// Whatever is left is not in its place: also the path, the host and the names.
	for _, rest := range []string{query, body, req.URL.Path, req.URL.User.String(), req.URL.Host, req.Host} {
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
	if body != form {
		req.Body = struct {
			io.Reader
			io.Closer
		}{strings.NewReader(body), req.Body}
		req.ContentLength, req.GetBody = int64(len(body)), nil
		req.Header.Del("Content-Length")
	}
	return true, nil
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

// form returns the body of a request that is a short form, and puts it back to be read
// again. For another request it returns "".
func (e *Exchange) form(req *http.Request) (string, error) {
	kind, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
	if req.Body == nil || !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") ||
		req.Header.Get("Content-Encoding") != "" || e.Len() == 0 {
		return "", nil
	}
	start, err := io.ReadAll(io.LimitReader(req.Body, maxForm+1))
	if err != nil {
		return "", fmt.Errorf("read the form of the request: %w", err)
	}
	req.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), req.Body), req.Body}
	if len(start) > maxForm {
		return "", nil
	}
	return string(start), nil
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
	scheme, credentials, ok := strings.Cut(value, " ")
	if ok && strings.EqualFold(scheme, "Basic") {
		return r.basic(name, value, credentials)
	}
	handle := handles.FindString(value)
	if handle == "" {
		return value, nil
	}
	s, err := r.secret(handle)
	if err != nil {
		return "", err
	}
	switch real, known := s.headers[name]; {
	case s.token == "" && known && value == handle:
		return real, nil
	case s.token != "" && value == handle:
		return s.token, nil
	case s.token != "" && ok && credentials == handle && !handles.MatchString(scheme):
		return scheme + " " + s.token, nil
	}
	return "", errPlace
}

// basic returns the value of a field such as "Authorization: Basic …" with the secret.
func (r *revealed) basic(name, value, credentials string) (string, error) {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if err != nil || !handles.Match(plain) {
		if handles.MatchString(value) {
			return "", errPlace
		}
		return value, nil
	}
	user, password, _ := strings.Cut(string(plain), ":")
	for _, part := range []*string{&user, &password} {
		handle := handles.FindString(*part)
		if handle == "" {
			continue
		}
		s, err := r.secret(handle)
		if err != nil {
			return "", err
		}
		if s.token == "" || *part != handle || name != "Authorization" {
			return "", errPlace
		}
		*part = s.token
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), nil
}

// query returns the query of a URL with its secrets.
func (r *revealed) query(query string) (string, error) {
	handle, alone := strings.CutPrefix(query, queryName+"=")
	if !alone || handles.FindString(handle) != handle || handle == "" {
		return r.values(query)
	}
	s, err := r.secret(handle)
	if err != nil {
		return "", err
	}
	if s.token == "" {
		if s.query == "" {
			return "", errPlace
		}
		return s.query, nil
	}
	return r.values(query)
}

// values returns name=value pairs with the secrets of tokens.
func (r *revealed) values(pairs string) (string, error) {
	if !handles.MatchString(pairs) {
		return pairs, nil
	}
	parts := strings.Split(pairs, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		if handle := handles.FindString(value); handle != "" {
			s, err := r.secret(handle)
			if err != nil {
				return "", err
			}
			if s.token == "" || value != handle {
				return "", errPlace
			}
			parts[i] = name + "=" + url.QueryEscape(s.token)
		}
	}
	return strings.Join(parts, "&"), nil
}
