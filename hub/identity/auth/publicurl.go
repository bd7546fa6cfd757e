package auth

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// PublicURL is where browsers find the hub. The zero value is none: the hub then has the
// name by which it is called.
type PublicURL struct {
	// Origin is scheme, host and port: https://hub.example.com.
	Origin string
	// Host is the name without the port.
	Host string
	// Path is the base path, without a slash at its end; empty for the root.
	Path string
	// HTTPS reports that it begins with https.
	HTTPS bool
}

// hstsAge is how long a browser uses https only, in seconds: a year.
const hstsAge = "max-age=31536000"

// ParsePublicURL parses a public URL. An empty text returns the zero value.
func ParsePublicURL(text string) (PublicURL, error) {
	if text == "" {
		return PublicURL{}, nil
	}
	invalid := func(what string) error {
		return fault.New(fault.Invalid, "public-url is %q, %s", text, what).WithFix("give the address that people type: --public-url https://hub.example.com")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return PublicURL{}, invalid("which is no URL of a web server")
	case u.User != nil:
		return PublicURL{}, invalid("which has a user")
	case u.RawQuery != "" || u.Fragment != "":
		return PublicURL{}, invalid("which has a query or a fragment")
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	} else {
		host = strings.TrimSuffix(host, ":80")
	}
	return PublicURL{
		Origin: u.Scheme + "://" + host, Host: strings.ToLower(u.Hostname()), Path: strings.TrimRight(u.Path, "/"), HTTPS: u.Scheme == "https",
	}, nil
}

// String returns the URL without a slash at its end; empty for none.
func (p PublicURL) String() string { return p.Origin + p.Path }

// SecureContext reports whether browsers offer passkeys and notifications to the pages of
// the URL, and otherwise what is missing, for people.
func (p PublicURL) SecureContext() (ok bool, missing string) {
	switch {
	case p.Origin == "":
		return false, "The hub does not know its own address: start it with --public-url https://…"
	case net.ParseIP(p.Host) != nil:
		return false, "The hub's address is " + p.Origin + ", and browsers want a name and not a number: use a --public-url with a host name"
	case !p.HTTPS && p.Host != "localhost" && !strings.HasSuffix(p.Host, ".localhost"):
		return false, "The hub's address is " + p.Origin + ", and browsers want HTTPS: give --tls-cert and --tls-key, or use a proxy or tunnel with a certificate"
	}
	return true, ""
}

type secureKey struct{}

// Secure reports whether a browser made a call over TLS: to the hub itself, to a proxy in
// front of it that says so, or to a public URL that has no other way. A client that
// forges the proxy's header only loses its own cookie.
func Secure(ctx context.Context) bool {
	secure, _ := ctx.Value(secureKey{}).(bool)
	return secure
}

func (p PublicURL) secure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") || p.HTTPS && p.isHost(r.Host)
}

// isHost reports whether a Host header names the public URL's host.
func (p PublicURL) isHost(header string) bool {
	host := strings.ToLower(header)
	if p.HTTPS {
		host = strings.TrimSuffix(host, ":443")
	} else {
		host = strings.TrimSuffix(host, ":80")
	}
	_, public, _ := strings.Cut(p.Origin, "://")
	return host == public
}

// Transport finds out for each call whether it is Secure. With a public URL that begins
// with https, browsers are told to use nothing else from then on (RFC 6797).
func (p PublicURL) Transport(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure := p.secure(r)
		if secure && p.HTTPS && p.isHost(r.Host) {
			w.Header().Set("Strict-Transport-Security", hstsAge)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), secureKey{}, secure)))
	})
}

// otherScheme reports whether an origin is the public URL's host over http where the URL
// is https: who can change what is sent on the network can make such a page.
func (p PublicURL) otherScheme(origin string) bool {
	if !p.HTTPS {
		return false
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "https" && strings.EqualFold(u.Hostname(), p.Host)
}
