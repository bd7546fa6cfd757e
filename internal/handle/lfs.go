package handle

import (
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/http/httpguts"
)

// LFSType is the content type of the Git LFS API.
const LFSType = "application/vnd.git-lfs+json"

// maxBatch bounds a response that is rewritten, in bytes.
const maxBatch = 8 << 20

// batch is the response of the Batch API, as in
// https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md. A field that is not
// here is left out of what the client gets.
type batch struct {
	Transfer string   `json:"transfer,omitzero"`
	Objects  []object `json:"objects"`
	HashAlgo string   `json:"hash_algo,omitzero"`
}

type object struct {
	OID           string             `json:"oid"`
	Size          int64              `json:"size"`
	Authenticated *bool              `json:"authenticated,omitzero"`
	Actions       map[string]*action `json:"actions,omitzero"`
	Error         *objectError       `json:"error,omitzero"`
}

type objectError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type action struct {
	Href      string            `json:"href"`
	Header    map[string]string `json:"header,omitzero"`
	ExpiresIn int64             `json:"expires_in,omitzero"` // seconds
	ExpiresAt string            `json:"expires_at,omitzero"` // RFC 3339
}

// lfsMethods are those of the actions of the transfer "basic".
var lfsMethods = map[string]string{"download": "GET", "upload": "PUT", "verify": "POST"}

// plainHeaders contain no secrets, and clients read some of them.
var plainHeaders = []string{
	"Accept", "Content-Type", "Transfer-Encoding",
	"X-Amz-Content-Sha256", "X-Amz-Date", "X-Ms-Blob-Type", "X-Ms-Version",
}

// badHeaders are about the connection, so that a server has no reason to set them.
var badHeaders = []string{"Connection", "Content-Length", "Host", "Proxy-Authorization", "Te", "Trailer", "Upgrade"}

// HideLFS returns the response to an LFS batch request with a handle in place of the
// values of each action's header fields and of the query of its URL. The body is that
// of a response with status 200, decompressed.
func (e *Exchange) HideLFS(body []byte, now time.Time) ([]byte, error) {
	if len(body) > maxBatch {
		return nil, fmt.Errorf("LFS batch response: it has %d bytes, more than %d", len(body), maxBatch)
	}
	var b batch
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, errors.New("LFS batch response: it is not the JSON that the LFS API describes")
	}
	if b.Transfer != "" && b.Transfer != "basic" {
		return nil, fmt.Errorf("LFS batch response: the transfer %.20q is not supported: configure lfs.basictransfersonly in git", b.Transfer)
	}
	fresh := map[string]*secret{}
	for _, o := range b.Objects {
		for name, a := range o.Actions {
			if a == nil {
				delete(o.Actions, name)
				continue
			}
			method, ok := lfsMethods[name]
			if !ok {
				return nil, fmt.Errorf("LFS batch response: the action %.20q is not known here", name)
			}
			if err := e.hideAction(a, method, now, fresh); err != nil {
				return nil, fmt.Errorf("LFS batch response: %s of object %.64q: %w", name, o.OID, err)
			}
		}
	}
	out, err := json.Marshal(b, json.Deterministic(true))
	if err != nil {
		return nil, errors.New("LFS batch response: it cannot be rewritten")
	}
	e.keep(now, fresh)
	return out, nil
}

func (e *Exchange) hideAction(a *action, method string, now time.Time, fresh map[string]*secret) error {
	u, err := url.Parse(a.Href)
	if err != nil {
		return errors.New("href is not a URL")
	}
	use, err := useOf(method, u)
	switch {
	case err != nil:
		return fmt.Errorf("href: %w", err)
	case u.User != nil:
		return errors.New("href contains a user name: the server must send it in a header field")
	case u.Fragment != "" || u.RawFragment != "":
		return errors.New("href contains a fragment")
	case !e.intercepts(use.Host, use.Port):
		return fmt.Errorf("href: the secrets for %s:%d cannot be hidden, because requests to it are not inspected: add the host to the credential", use.Host, use.Port)
	}
	expires, err := a.expiry(now)
	if err != nil {
		return err
	}
	if limit := now.Add(e.maxAge); expires.IsZero() || expires.After(limit) {
		// The client is told, so that it asks for a new one in time.
		expires, a.ExpiresIn, a.ExpiresAt = limit, int64(e.maxAge/time.Second), ""
	}
	s := &secret{uses: []Use{use}, expires: expires, headers: map[string]string{}, query: u.RawQuery}
	handle := newHandle()
	for name, value := range a.Header {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || slices.Contains(badHeaders, canonical) {
			return fmt.Errorf("the header field %.40q is not valid", name)
		}
		if slices.Contains(plainHeaders, canonical) {
			continue
		}
		if _, ok := s.headers[canonical]; ok {
			return fmt.Errorf("the header field %.40q occurs twice", name)
		}
		s.headers[canonical] = value
		a.Header[name] = handle
	}
	if s.query != "" {
		u.RawQuery = queryName + "=" + handle
		a.Href = u.String()
	}
	if n := s.size(); n > maxSecret {
		return fmt.Errorf("its address and header fields have %d bytes, more than %d", n, maxSecret)
	}
	if s.query != "" || len(s.headers) > 0 {
		fresh[handle] = s
	}
	return nil
}

// queryName is the name of the handle in the query of a URL.
const queryName = "handle"

// expiry returns when an action expires, or the zero time if it does not say.
func (a *action) expiry(now time.Time) (time.Time, error) {
	if a.ExpiresIn < 0 {
		return time.Time{}, errors.New("expires_in is negative")
	}
	if a.ExpiresIn > 0 {
		return now.Add(time.Duration(min(a.ExpiresIn, 1<<31)) * time.Second), nil
	}
	if a.ExpiresAt == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, a.ExpiresAt)
	if err != nil {
		return time.Time{}, errors.New("expires_at is not a time of RFC 3339")
	}
	return at, nil
}
