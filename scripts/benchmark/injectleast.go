package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	osexec "os/exec"
	"path/filepath"
	"time"
)

// The least that a proxy which terminates TLS can do: net/http's server, its reverse proxy and
// its client, with TLS at both ends, and neither rules nor records nor a search of responses.
// What it costs more than an opaque tunnel is the price of reading HTTP and of TLS three
// times instead of once; what ours costs more than it is ours.

// envLeast has what a process of this program is to be the least proxy with, as JSON.
const envLeast = "DECKHAND_BENCH_LEAST"

// leastConfig says where the least proxy serves, how, and whom it trusts.
type leastConfig struct {
	Socket     string
	Cert, Key  string // of the leaf, in PEM
	Roots      string // of the server, in PEM
	Hub        string // the socket to which requests are sent in plain HTTP instead; may be empty
	Credential string
}

// leastRole is the least proxy if this process was started to be it.
func leastRole() bool {
	text, ok := os.LookupEnv(envLeast)
	if !ok {
		return false
	}
	var c leastConfig
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.serve()
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
	return true
}

// serve serves until its input ends.
func (c leastConfig) serve() error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	cert, err := tls.X509KeyPair([]byte(c.Cert), []byte(c.Key))
	if err != nil {
		return err
	}
	inside := &leastListener{conns: make(chan net.Conn)}
	server := &http.Server{
		Handler: leastProxy(c.transport), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true},
	}
	go func() { _ = server.ServeTLS(inside, "", "") }()
	outside, err := net.Listen("unix", c.Socket)
	if err != nil {
		return err
	}
	return serveConnect(outside, func(conn net.Conn, from *bufio.Reader, _ string) { inside.conns <- &leastConn{conn, from} })
}

// transport returns the way of requests in a version of HTTP.
func (c leastConfig) transport(major int) http.RoundTripper {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(c.Roots))
	t := leastTransport(roots, major)
	if c.Hub == "" {
		return leastInsert{t}
	}
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Hub)
	}
	if major >= 2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return leastPlain{t}
}

func leastTransport(roots *x509.CertPool, major int) *http.Transport {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: major >= 2,
		DisableCompression: true, MaxIdleConnsPerHost: 64,
	}
	if major < 2 {
		t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return t
}

// leastInsert inserts the credential.
type leastInsert struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l leastInsert) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+injectSecret)
	return l.RoundTripper.RoundTrip(r)
}

// leastPlain sends requests without TLS.
type leastPlain struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l leastPlain) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme = "http"
	return l.RoundTripper.RoundTrip(r)
}

// leastProxy passes requests on, each in the version of HTTP in which it came.
func leastProxy(transport func(major int) http.RoundTripper) http.Handler {
	h1, h2 := leastReverse(transport(1)), leastReverse(transport(2))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor >= 2 {
			h2.ServeHTTP(w, r)
			return
		}
		h1.ServeHTTP(w, r)
	})
}

func leastReverse(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(pr *httputil.ProxyRequest) {
		pr.Out.URL.Scheme, pr.Out.URL.Host = "https", pr.In.Host
	}}
}

// leastListener returns the connections that are inside of tunnels.
type leastListener struct{ conns chan net.Conn }

// Accept implements net.Listener.
func (l *leastListener) Accept() (net.Conn, error) { return <-l.conns, nil }

// Close implements net.Listener.
func (l *leastListener) Close() error { return nil }

// Addr implements net.Listener.
func (l *leastListener) Addr() net.Addr { return &net.UnixAddr{} }

// leastConn is a connection of which something was read ahead.
type leastConn struct {
	net.Conn
	from *bufio.Reader
}

// Read implements io.Reader.
func (c *leastConn) Read(b []byte) (int, error) {
	if c.from.Buffered() > 0 {
		return c.from.Read(b)
	}
	return c.Conn.Read(b)
}

// serveConnect opens the tunnels that are asked for, and hands them on with their target.
func serveConnect(l net.Listener, tunnel func(conn net.Conn, from *bufio.Reader, target string)) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			from := bufio.NewReader(conn)
			r, err := http.ReadRequest(from)
			if err != nil || r.Method != http.MethodConnect {
				_ = conn.Close()
				return
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
				_ = conn.Close()
				return
			}
			tunnel(conn, from, r.Host)
		}()
	}
}

// least starts the least proxy for a jail of its own name. hub says whether requests go by
// this process, as those do whose credential stays in the hub.
func (r *injectRig) least(ctx context.Context, jail string, hub bool) error {
	leaf, key, err := r.leaf()
	if err != nil {
		return err
	}
	c := leastConfig{Socket: filepath.Join(r.dir, jail+".sock"), Cert: leaf, Key: key, Roots: r.roots}
	if hub {
		c.Hub = filepath.Join(r.dir, jail+"-hub.sock")
		if err := r.leastHub(c.Hub); err != nil {
			return err
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := osexec.CommandContext(ctx, own) //nolint:gosec // this program
	cmd.Env, cmd.Stderr = append(os.Environ(), envLeast+"="+string(text)), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.closing = append(r.closing, func() { _, _ = stdin.Close(), cmd.Wait() })
	for range 200 {
		if _, err = os.Stat(c.Socket); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the least proxy does not serve")
}

// leastHub is a hub's part of the least: it inserts the credential, and speaks TLS to the
// server through the tunnel of our proxy.
func (r *injectRig) leastHub(socket string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.roots))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols), Handler: leastProxy(func(major int) http.RoundTripper {
		t := leastTransport(roots, major)
		t.Proxy, t.DialContext = throughJail(r.dir, byTunnel)
		return leastInsert{t}
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(l) }()
	r.closing = append(r.closing, func() { _ = server.Close() })
	return nil
}

// leaf returns a certificate for the server by the authority of the jails, and its key.
func (r *injectRig) leaf() (cert, private string, err error) {
	ca, err := tls.X509KeyPair([]byte(r.ca), []byte(r.key))
	if err != nil {
		return "", "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", raw), encode("PRIVATE KEY", der), nil
}
