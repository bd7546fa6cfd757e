package bus

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// CheckURLs refuses a list of NATS URLs, those of the flag, if one of them would be used
// without TLS over a network, where passwords and events could be read.
func CheckURLs(flag string, servers config.Secret) error {
	for server := range strings.SplitSeq(servers.Reveal(), ",") {
		u, err := parseURL(server)
		if err != nil {
			// The cause would print the URL with its password.
			return fault.New(fault.Invalid, "%s is not a URL", flag).WithFix("use one such as tls://hub:password@nats.example.com:4222")
		}
		if u.Host != "" && !encrypted(u) && !Loopback(u.Hostname()) {
			return fault.New(fault.Invalid, "%s reaches %s in plain text, which is for loopback only", flag, u.Host).
				WithFix("have the NATS server speak TLS and begin --%s with tls://; --nats-ca names its authority when the system does not know it", flag)
		}
	}
	return nil
}

// parseURL reads one NATS URL, as the client does: without a scheme it is nats.
func parseURL(server string) (*url.URL, error) {
	server = strings.TrimSpace(server)
	if server != "" && !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	return url.Parse(server)
}

func encrypted(u *url.URL) bool { return u.Scheme == "tls" || u.Scheme == "wss" }

// overTLS reports whether a list of NATS URLs asks for TLS.
func overTLS(servers string) bool {
	for server := range strings.SplitSeq(servers, ",") {
		if u, err := parseURL(server); err == nil && encrypted(u) {
			return true
		}
	}
	return false
}

// Loopback reports whether a host is this machine alone.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// trusting returns the TLS configuration of a client for a server with a certificate of
// an authority, as PEM; nil for the system's authorities.
func trusting(authority string) (*tls.Config, error) {
	if authority == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authority)) {
		return nil, fault.New(fault.Invalid, "nats-ca holds no certificate").WithFix("give --nats-ca a file of PEM certificates")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
