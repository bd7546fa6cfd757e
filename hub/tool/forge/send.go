package forge

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/deckhand-sh/deckhand/internal/echomask"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 30 * time.Second
	// maxBody and maxHeader bound a response, in bytes: a hundred pull requests whose texts
	// are as long as they may be.
	maxBody   = 32 << 20
	maxHeader = 256 << 10
	// maxSaid bounds what is repeated of a server's text, in characters.
	maxSaid = 300
	// usualWait is for a server that limits requests and does not say for how long, and
	// maxWait bounds what it says.
	usualWait = time.Minute
	maxWait   = time.Hour
)

// client returns a client by which requests leave with the credential.
func (a Access) client() (*http.Client, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.Roots != "" {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(a.Roots)) {
			return nil, fault.New(fault.Precondition, "the roots of credential %s cannot be parsed", a.Credential).WithCode(fault.CredentialRefused).
				WithFix("an administrator creates it again")
		}
	}
	return &http.Client{
		Transport: &transport{access: a, base: &http.Transport{
			DialContext: a.Dial, TLSClientConfig: cfg, ForceAttemptHTTP2: true, DisableCompression: true, DisableKeepAlives: true,
			MaxResponseHeaderBytes: maxHeader, TLSHandshakeTimeout: requestTimeout,
		}},
		// It would take the credential elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// transport inserts the credential, masks what is echoed of it, and records the request.
type transport struct {
	access Access
	base   http.RoundTripper
}

// lostResponse says that a request was sent, and that there is no response, or none in full.
type lostResponse struct{ err error }

func (l *lostResponse) Error() string { return l.err.Error() }
func (l *lostResponse) Unwrap() error { return l.err }

// RoundTrip implements http.RoundTripper. The response's body has been read.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	out := req.Clone(ctx)
	secrets, err := t.access.Insert(ctx, out)
	if err != nil {
		return nil, err
	}
	masked := make([]echomask.Secret, 0, len(secrets))
	for _, value := range secrets {
		masked = append(masked, echomask.Secret{Name: t.access.Credential, Value: value})
	}
	record := egresslink.Record{
		Method: req.Method, Host: out.URL.Host, Path: maskedPath(req.URL), SentBytes: max(req.ContentLength, 0), At: time.Now(),
	}
	res, err := t.base.RoundTrip(out)
	if err == nil {
		record.Status = res.StatusCode
		_, err = echomask.New(masked).Response(res)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(io.LimitReader(res.Body, maxBody))
			record.ReceivedBytes = int64(len(body))
			_ = res.Body.Close()
			res.Body = io.NopCloser(bytes.NewReader(body))
		} else {
			_ = res.Body.Close()
		}
	}
	record.Duration = time.Since(record.At)
	if err != nil {
		record.Problem = "there is no response, or none in full"
	}
	if rerr := t.access.Record(context.WithoutCancel(ctx), record); rerr != nil {
		return nil, fmt.Errorf("record a request with credential %s: %w", t.access.Credential, rerr)
	}
	if err != nil {
		return nil, &lostResponse{err}
	}
	return res, nil
}

// maskedPath returns a path without the values of its query.
func maskedPath(u *url.URL) string {
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		names = append(names, url.QueryEscape(name)+"=****")
	}
	return u.EscapedPath() + "?" + strings.Join(names, "&")
}

// refused is a response that is not a success.
type refused struct {
	status int
	header http.Header
	said   string
}

func (r *refused) Error() string { return fmt.Sprintf("HTTP %d: %s", r.status, r.said) }

// unreadable returns the error for a success that lacks something.
func unreadable(what string) error {
	return fault.New(fault.Unavailable, "the response of the server has %s", what).WithFix("look on the server whether it was done")
}

// send sends a request, and decodes the response of a success.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode a request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(asking, method, c.access.BaseURL+path, content)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	req.Header = header
	req.Header.Set("User-Agent", "deckhand")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		var of *url.Error // it repeats the URL
		if errors.As(err, &of) {
			err = of.Err
		}
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read a response: %w", err)
	}
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusMultipleChoices {
		return &refused{status: res.StatusCode, header: res.Header, said: said(text)}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return unreadable("no JSON, or another one than expected")
	}
	return nil
}

// said returns what a server says of an error, in one line: the messages of GitHub's form and
// of GitLab's, or the beginning of the text.
func said(text []byte) string {
	var form struct {
		Message any
		Error   any
		Detail  string `json:"error_description"`
		Errors  any
	}
	if json.Unmarshal(text, &form) != nil {
		return short(string(text))
	}
	var parts []string
	for _, part := range []any{form.Message, form.Error, form.Detail, form.Errors} {
		parts = gather(parts, "", part)
	}
	return short(strings.Join(parts, "; "))
}

// short returns the beginning of a server's text on one line, without control characters.
func short(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		return string(runes[:maxSaid]) + "…"
	}
	return text
}

// unreachable returns the error for a request without a response.
func unreachable(host string, err error) error {
	var unverified *tls.CertificateVerificationError
	var late net.Error
	switch {
	case errors.As(err, &unverified):
		return fault.New(fault.Unavailable, "the certificate of %s cannot be verified: %s", host, unverified.Err).
			WithFix("an administrator can set the certificates of a private authority with the credential")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return fault.New(fault.Unavailable, "%s does not respond in time", host).WithFix("look there whether it was done, and try again later")
	}
	return fault.New(fault.Unavailable, "%s did not respond: the connection broke", host).WithFix("look there whether it was done, and try again later").WithCause(err)
}

// gather appends the texts in a JSON value, with the names of the fields that they are about.
func gather(parts []string, field string, value any) []string {
	switch v := value.(type) {
	case string:
		if v == "" {
			return parts
		}
		if field != "" {
			v = field + ": " + v
		}
		return append(parts, v)
	case []any:
		for _, one := range v {
			parts = gather(parts, field, one)
		}
	case map[string]any:
		if message, ok := v["message"].(string); ok && message != "" {
			return append(parts, message)
		}
		if code, ok := v["code"].(string); ok {
			name, _ := v["field"].(string)
			return gather(parts, name, code)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			under := name
			if name == "base" {
				under = field
			}
			parts = gather(parts, under, v[name])
		}
	}
	return parts
}

// explain returns the error for people of a request that failed; doing says what it was for.
func (c *Client) explain(err error, doing string) error {
	var no *refused
	var lost *lostResponse
	host := c.access.BaseURL
	if u, perr := url.Parse(host); perr == nil {
		host = u.Host
	}
	switch {
	case errors.As(err, &no):
		return c.refusal(no, host, doing)
	case errors.As(err, &lost):
		if e := fault.As(lost.err); e != nil {
			return e // the tunnel says what is wrong
		}
		return unreachable(host, lost.err)
	}
	return err
}

func (c *Client) refusal(r *refused, host, doing string) error {
	why := r.said
	if why == "" {
		why = "it said nothing"
	}
	is := func(kind fault.Kind) *fault.Error {
		return fault.New(kind, "cannot %s: %s responds with HTTP %d: %s", doing, host, r.status, why)
	}
	switch code := r.status; {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && (r.header.Get("Retry-After") != "" || r.header.Get("X-RateLimit-Remaining") == "0"):
		wait := waitOf(r.header)
		return fault.New(fault.Exhausted, "cannot %s: %s limits requests (HTTP %d)", doing, host, code).WithCode(fault.RateLimited).
			WithFix("try again in %s", wait).WithRetryAfter(wait)
	case code == http.StatusUnauthorized:
		return is(fault.Denied).WithCode(fault.CredentialRefused).WithObject(c.access.Credential).
			WithFix("an administrator stores a valid value: deckhand credential rotate %s", c.access.Credential)
	case code == http.StatusForbidden:
		return is(fault.Denied).WithCode(fault.CredentialRefused).WithObject(c.access.Credential).
			WithFix("credential %s needs %s for %s", c.access.Credential, c.needed(r), c.repository)
	case code == http.StatusNotFound:
		return is(fault.NotFound).WithFix("check the repository %s and the number; the server also responds so if credential %s may not see them", c.repository, c.access.Credential)
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity, code == http.StatusConflict:
		return is(fault.Invalid).WithFix("correct what the server names, and check that the branches exist there and differ")
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return is(fault.NotFound).WithFix("the repository was renamed or moved, and redirects are not followed: use its new name")
	case code >= http.StatusInternalServerError:
		return is(fault.Unavailable).WithFix("look on the server whether it was done, and try again later")
	}
	return is(fault.Precondition).WithFix("correct what the server names")
}

// needed says which permission is missing: GitHub and OAuth 2.0 servers name it.
func (c *Client) needed(r *refused) string {
	if accepted := short(r.header.Get("X-Accepted-GitHub-Permissions")); accepted != "" {
		return "the permission " + strings.ReplaceAll(accepted, "=", ": ")
	}
	return c.service.needs()
}

// waitOf returns for how long a server wants no requests.
func waitOf(h http.Header) time.Duration {
	wait := usualWait
	if after, err := strconv.Atoi(h.Get("Retry-After")); err == nil && after >= 0 {
		wait = time.Duration(min(after, int(maxWait/time.Second))) * time.Second
	} else {
		for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
			if reset, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil {
				wait = time.Until(time.Unix(reset, 0))
				break
			}
		}
	}
	return min(max(wait, time.Second), maxWait).Round(time.Second)
}
