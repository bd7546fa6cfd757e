package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/httprule"
)

// TLS is terminated for the hosts of credentials and of rules by method and path: the
// proxy proves to be the host by a certificate that the jail trusts, decides about each
// request, and sends it on in a connection of its own, whose certificate it verifies.
//
// The standard library's server, reverse proxy and client do the work, since a credential
// must never depend on how a second implementation reads HTTP.

// intercept serves a tunnel to a host whose TLS is terminated.
func (j *jail) intercept(w http.ResponseWriter, r *http.Request, t allowlist.Target, p *policy, who asker) {
	a := p.authority(t)
	if a == nil {
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("this jail has no certificate authority for %s yet", t.Host))
		return
	}
	// First, since a failure is said in HTTP before the tunnel is open.
	ctx, cancel := context.WithTimeout(r.Context(), j.p.cfg.Patience)
	defer cancel()
	leaf, err := j.signers.leaf(ctx, a, t)
	if err != nil {
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("there is no certificate for %s: %s", t.Host, err))
		return
	}
	got, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		say(w, http.StatusBadRequest, "this connection cannot become a tunnel")
		return
	}
	defer got.Close()
	client, ok := got.(*conn)
	if !ok {
		return
	}
	if _, err := io.WriteString(client, established); err != nil {
		return
	}
	j.terminate(client, buffered.Reader, t, leaf, protocols(r.UserAgent()), who)
}

// protocols returns what a program is offered inside its tunnel, by what it says of itself
// when it asks for the tunnel. Git and old versions of curl get no HTTP/2: libcurl 7.88, that
// of Debian 12, can stop in the middle of an upload by HTTP/2 and wait for ever.
func protocols(userAgent string) []string {
	if strings.HasPrefix(userAgent, "git/") || strings.HasPrefix(userAgent, "curl/7.") {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

// terminate serves the requests in a tunnel to a host whose TLS is terminated.
func (j *jail) terminate(client *conn, from *bufio.Reader, t allowlist.Target, leaf *tls.Certificate, protocols []string, who asker) {
	one := &oneConn{conn: client, from: from, ended: make(chan struct{})}
	defer one.Close()
	_ = client.SetReadDeadline(time.Now().Add(j.p.cfg.Patience))
	first, err := from.Peek(firstBytes)
	switch {
	case len(first) == 0:
		return
	case first[0] != recordHandshake && err == nil && isHTTP(first):
		_ = client.SetReadDeadline(time.Time{})
		j.inside(client, from, t, who)
		return
	}
	named := "" // by the client, if it names another host
	secure := tls.Server(one, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols, SessionTicketsDisabled: true,
		DynamicRecordSizingDisabled: true, // the client is on this machine
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if refusal := judgeHello(t, hello.ServerName, nil); refusal != nil {
				named = refusal.Reason
				return nil, refusal
			}
			return leaf, nil
		},
	})
	if err := secure.HandshakeContext(context.Background()); err != nil {
		j.failedHandshake(who, t, named, err)
		return
	}
	_ = client.SetReadDeadline(time.Time{})
	server := j.p.serverOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.request(w, r, t, who) }))
	var conn net.Conn = secure // the server looks for this type, and serves HTTP/2 if that was agreed on
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		conn, server.ConnState = httprule.NewStrictConn(secure), httprule.ConnState
	}
	_ = server.Serve(&onceListener{conn: conn, ended: one.ended})
}

// failedHandshake notes why a client's TLS failed.
func (j *jail) failedHandshake(who asker, t allowlist.Target, named string, err error) {
	why := &allowlist.Refusal{Reason: named}
	var remote *net.OpError
	switch {
	case named != "":
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert of TLS
		why.Reason = fmt.Sprintf("the program does not trust the certificate by which the egress proxy stands for %s (%s): "+
			"it has certificates of its own, or pins the host's; have it use the system's, or SSL_CERT_FILE", t, remote.Err)
	default:
		return // it went away, or spoke no TLS
	}
	who.refused(t.String(), http.MethodConnect, why)
	j.refusals.note(t.String(), http.MethodConnect, why)
}

// onceListener returns a connection once, and then waits for its end.
type onceListener struct {
	conn  net.Conn
	ended <-chan struct{}
	once  sync.Once
}

// Accept implements net.Listener.
func (o *onceListener) Accept() (c net.Conn, err error) {
	o.once.Do(func() { c = o.conn })
	if c != nil {
		return c, nil
	}
	<-o.ended
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (o *onceListener) Close() error { return nil }

// Addr implements net.Listener.
func (o *onceListener) Addr() net.Addr { return o.conn.LocalAddr() }
