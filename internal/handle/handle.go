// Package handle replaces secrets that a server issues in its responses by handles,
// so that a client behind a proxy can use them without having them.
//
// An Exchange keeps the secrets of one jail. HideLFS rewrites the response to a Git LFS
// batch request: each secret is replaced by a random handle, which the client sends back as
// it would the secret.
// Reveal puts the secret into the request that carries the handle.
//
// What is guaranteed:
//
//   - A handle is exchanged only in a request to the host, port, method and path that
//     it is bound to. A request that carries it anywhere else, or in another place of
//     the request than the secret had, is an error and must not be forwarded: it would
//     either be useless or an attempt to send the secret elsewhere.
//   - A response in which a secret could remain is an error and must not be passed on.
//     The response to an LFS batch is rebuilt from the fields that are known.
//   - Secrets are in memory only, for at most Config.MaxAge, and at most Config.Max and
//     Config.MaxBytes of them. When there are more, the one that expires next is dropped; the client
//     then asks for a new one, as it does when a secret has expired.
//
// No error contains a secret or a handle.
//
// What is not hidden: the path of an LFS action's URL. Known servers have their
// secrets in header fields and in the query, which are replaced as a whole.
//
// An Exchange is safe for use by many goroutines. After a restart its handles are
// unknown, which is an error to Reveal.
package handle

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Config configures an Exchange.
type Config struct {
	// Max is the number of secrets that are kept. Default: 4096.
	Max int
	// MaxBytes is how long the secrets may be together. Default: 4 MiB. One of more than
	// 64 KiB is an error.
	MaxBytes int
	// MaxAge is the longest time for which a secret is kept, whatever the server
	// says. Default: one hour.
	MaxAge time.Duration
	// Intercepts reports whether requests to a host pass through Reveal. A handle is
	// of no use for one whose requests do not. The host is in lower case. Required.
	Intercepts func(host string, port uint16) bool
}

// Exchange keeps secrets and their handles.
type Exchange struct {
	max        int
	maxBytes   int
	maxAge     time.Duration
	intercepts func(string, uint16) bool

	mu      sync.Mutex
	secrets map[string]*secret // by handle; guarded by mu
	bytes   int                // of secrets; guarded by mu
}

// New creates an Exchange.
func New(c Config) *Exchange {
	return &Exchange{
		max: cmp.Or(c.Max, 4096), maxBytes: cmp.Or(c.MaxBytes, 4<<20), maxAge: cmp.Or(c.MaxAge, time.Hour),
		intercepts: c.Intercepts, secrets: map[string]*secret{},
	}
}

// Use is where a handle may be used.
type Use struct {
	// Host is a name or an address, in lower case; an IPv6 address has no brackets.
	Host string
	Port uint16
	// Method and Path (as it is sent, with its escapes) are exact; empty means any.
	Method, Path string
}

func (u Use) allows(o Use) bool {
	return u.Host == o.Host && u.Port == o.Port && (u.Method == "" || u.Method == o.Method) && (u.Path == "" || u.Path == o.Path)
}

// secret is what a handle stands for: the header fields and the query of a request.
type secret struct {
	uses    []Use
	expires time.Time
	headers map[string]string // by canonical name
	query   string
}

// maxSecret bounds one secret, in bytes.
const maxSecret = 64 << 10

// size returns how long a secret is, in bytes.
func (s *secret) size() int {
	n := len(s.query)
	for name, value := range s.headers {
		n += len(name) + len(value)
	}
	for _, u := range s.uses {
		n += len(u.Host) + len(u.Path)
	}
	return n
}

// Len returns the number of secrets that are kept, expired ones included.
func (e *Exchange) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.secrets)
}

// Forget drops all secrets.
func (e *Exchange) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.secrets)
	e.bytes = 0
}

// kind begins each handle.
const kind = "dhhandle"

var handles = regexp.MustCompile(kind + `_[0-9a-z]+`)

func newHandle() string { return ident.Secret(kind) }

// keep stores secrets by their handles.
func (e *Exchange) keep(now time.Time, fresh map[string]*secret) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for handle, s := range fresh {
		for len(e.secrets) > 0 && (len(e.secrets) >= e.max || e.bytes+s.size() > e.maxBytes) {
			e.evict(now)
		}
		e.secrets[handle] = s
		e.bytes += s.size()
	}
}

// evict drops all that have expired, or else the one that expires next.
func (e *Exchange) evict(now time.Time) {
	next, before := "", len(e.secrets)
	for handle, s := range e.secrets {
		if !s.expires.After(now) {
			e.drop(handle)
		} else if next == "" || s.expires.Before(e.secrets[next].expires) {
			next = handle
		}
	}
	if len(e.secrets) == before {
		e.drop(next)
	}
}

// drop forgets one secret. The caller holds mu.
func (e *Exchange) drop(handle string) {
	e.bytes -= e.secrets[handle].size()
	delete(e.secrets, handle)
}

// lookup returns the secret of a handle for a use.
func (e *Exchange) lookup(handle string, use Use, now time.Time) (*secret, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.secrets[handle]
	if !ok || !s.expires.After(now) {
		return nil, errors.New("the handle of a secret is unknown or has expired: repeat the request that issued it")
	}
	for _, u := range s.uses {
		if u.allows(use) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the handle of a secret was issued for %s: it cannot be used for %s", s.uses[0], use)
}

// String returns the use like "GET https://host:443/path".
func (u Use) String() string {
	host := u.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s https://%s:%d%s", cmp.Or(u.Method, "any method of"), host, u.Port, cmp.Or(u.Path, "/*"))
}

// useOf returns where a request to a URL goes. Only https has secrets.
func useOf(method string, u *url.URL) (Use, error) {
	port := uint64(443)
	if p := u.Port(); p != "" {
		var err error
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return Use{}, errors.New("the port is not valid")
		}
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" || u.Scheme != "https" {
		return Use{}, errors.New("it is not an https URL with a host")
	}
	return Use{Host: host, Port: uint16(port), Method: method, Path: cmp.Or(u.EscapedPath(), "/")}, nil
}
