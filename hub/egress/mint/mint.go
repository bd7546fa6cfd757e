// Package mint exchanges what the hub keeps for tokens that expire soon: the key of a GitHub
// App for a token of one of its installations (GitHubApp), and a client's secret for an
// access token of OAuth 2.0 (OAuth2Client).
//
// A function sends at most a few requests, caches nothing, and follows no redirect if the
// client does not. Its errors are *fault.Error: of kind Denied if the server refuses,
// Exhausted with the time to wait if it limits requests, and Unavailable if there is no
// response that can be used. They contain what the server says, but no secret: callers mask
// texts of servers as well.
package mint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Token is one that was issued.
type Token struct {
	Value string
	// ExpiresAt is zero if the server does not say.
	ExpiresAt time.Time
	// Refresh is the refresh token to use from now on, if the server has returned another
	// one; the one before may not work any more.
	Refresh string
}

const (
	// maxResponse bounds what is read of a server's response.
	maxResponse = 1 << 20
	// maxSaid bounds what is repeated of it, in characters.
	maxSaid = 300
	// usualWait is for a server that limits requests and does not say for how long, and
	// maxWait bounds what it says.
	usualWait = time.Minute
	maxWait   = time.Hour
)

// Said returns the beginning of a server's text on one line, without control characters.
func Said(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		return string(runes[:maxSaid]) + "…"
	}
	return text
}

// limited returns an error if a response says that there were too many requests.
func limited(server string, status int, h http.Header) error {
	if status != http.StatusTooManyRequests && (status != http.StatusForbidden || h.Get("Retry-After") == "" && h.Get("X-RateLimit-Remaining") != "0") {
		return nil
	}
	wait := usualWait
	if after, err := strconv.Atoi(h.Get("Retry-After")); err == nil && after >= 0 {
		wait = time.Duration(min(after, int(maxWait/time.Second))) * time.Second
	} else if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		wait = time.Until(time.Unix(reset, 0))
	}
	wait = min(max(wait, time.Second), maxWait).Round(time.Second)
	return fault.New(fault.Exhausted, "%s limits requests for tokens (HTTP %d)", server, status).WithCode(fault.CredentialRefused).
		WithFix("try again in %s", wait).WithRetryAfter(wait)
}

// unusable returns the error for a response that cannot be used.
func unusable(server string, status int, text string) error {
	return fault.New(fault.Unavailable, "%s issued no token (HTTP %d): %s", server, status, orNothing(Said(text))).WithCode(fault.CredentialRefused).
		WithFix("try again later; deckhand credential test shows the response")
}

func orNothing(text string) string {
	if text == "" {
		return "it said nothing"
	}
	return text
}

// Unreachable returns the error for a request to a server that failed: what is wrong with its
// certificate, its address or its network.
func Unreachable(server string, err error) *fault.Error {
	problem, fix := Explain(err)
	kind := fault.Unavailable
	if errors.Is(err, dialguard.ErrRefused) {
		kind = fault.Denied
	}
	return fault.New(kind, "%s cannot be reached: %s", server, problem).WithCode(fault.CredentialRefused).WithFix("%s", fix).WithCause(err)
}

// Explain says why a request failed, and what to do.
func Explain(err error) (problem, fix string) {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, dialguard.ErrRefused):
		if errors.As(err, &op) {
			err = op.Err
		}
		return err.Error(), "use a public server, or have the hub's operator allow its network with --provider-allow"
	case errors.As(err, &authority):
		return "its certificate is signed by an unknown authority" + issuer(authority.Cert), "give the authority's certificate with --roots FILE"
	case errors.As(err, &hostname):
		return "its certificate is for " + Said(names(hostname.Certificate)) + ", not for " + hostname.Host, "use a name that its certificate has"
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired && invalid.Cert != nil {
			return fmt.Sprintf("its certificate is valid from %s to %s only", invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339)), "renew the server's certificate, or set the hub's clock"
		}
		return "its certificate is invalid: " + Said(invalid.Error()), "renew the server's certificate"
	case errors.As(err, &record):
		return "it does not speak TLS on that port", "use the port of its HTTPS"
	case errors.As(err, &alert):
		return "it ended the TLS handshake: " + alert.Error(), "look at what its TLS needs, such as a certificate of the client"
	case errors.As(err, &dns):
		return "its name does not resolve: " + dns.Err, "check the host's name, and the hub's DNS"
	case errors.As(err, &op):
		return op.Op + ": " + Said(op.Err.Error()), "check host and port, and that the hub's machine may reach it"
	}
	return Said(err.Error()), "check host and port, and that the hub's machine may reach it"
}

func issuer(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return " (" + Said(c.Issuer.String()) + ")"
}

func names(c *x509.Certificate) string {
	if c == nil || len(c.DNSNames) == 0 && len(c.IPAddresses) == 0 {
		return "no host"
	}
	all := c.DNSNames
	for _, ip := range c.IPAddresses {
		all = append(all[:len(all):len(all)], ip.String())
	}
	return strings.Join(all, ", ")
}
