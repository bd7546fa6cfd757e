package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/deckhand-sh/deckhand/hub/egress/channel"
	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	egressproxy "github.com/deckhand-sh/deckhand/node/egress/process"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	injectRounds   = 6
	injectRequests = 400 // of a round, over one connection
	injectFirst    = 60  // of a round, each the first of a connection
	injectWorkers  = 8
	injectSpell    = 700 * time.Millisecond // for which workers send requests, in a round
	injectBytes    = 1 << 30
	injectUID      = 1_000_065_537
	injectSecret   = "sk-0123456789-0123456789-SECRET"
)

// The jails: a credential that the node inserts, one that the hub inserts, and a tunnel.
const (
	byNode   = "node"
	byHub    = "hub"
	byTunnel = "tunnel"
	// The least that a proxy can do; see leastConfig.
	byLeast    = "node_least"
	byLeastHub = "hub_least"
)

// injectRig is an egress proxy in a process of its own, the hub's end of its channel, and a
// server with TLS. The server, the hub and the clients are this process.
type injectRig struct {
	dir     string
	server  *httptest.Server
	proxy   *egressproxy.Process
	ca      string // of the jails, in PEM
	key     string
	roots   string // of the server, in PEM
	node    nodev1.EgressServiceClient
	closing []func()
}

// injectHub is what the channel asks of a hub.
type injectHub struct {
	machine.Link // only Egress is called
	r            *injectRig
}

// Egress implements machine.Link.
func (h injectHub) Egress() nodev1.EgressServiceClient { return h.r.node }

// JailIsLive implements the queries of the channel.
func (injectHub) JailIsLive(context.Context, db.JailIsLiveParams) (bool, error) {
	return true, nil
}

// Token implements channel.Credentials.
func (injectHub) Token(context.Context, string, string, string, string, string) (egresslink.Token, error) {
	return egresslink.Token{
		Headers: map[string]string{"Authorization": "Bearer " + injectSecret}, Secrets: []string{injectSecret}, ExpiresAt: time.Now().Add(time.Hour),
	}, nil
}

// Insert implements channel.Credentials.
func (h injectHub) Insert(_ context.Context, _, _, _, _ string, req *http.Request) (credential.Inserted, error) {
	req.Header.Set("Authorization", "Bearer "+injectSecret)
	return credential.Inserted{Secrets: []string{injectSecret}, Roots: h.r.roots, Private: true}, nil
}

// Record implements channel.Credentials.
func (injectHub) Record(context.Context, string, string, []egresslink.Record) error { return nil }

func newInjectRig(ctx context.Context, h http.Handler) (_ *injectRig, err error) {
	r := &injectRig{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "deckhand-bench-"); err != nil {
		return nil, err
	}
	r.closing = append(r.closing, func() { _ = os.RemoveAll(r.dir) })
	if err := os.Chmod(r.dir, 0o755); err != nil { //nolint:gosec // the proxy's user looks for its folder
		return nil, err
	}
	r.server = httptest.NewUnstartedServer(h)
	r.server.EnableHTTP2 = true
	r.server.StartTLS()
	r.closing = append(r.closing, r.server.Close)
	r.roots = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}))
	if err := r.authority(); err != nil {
		return nil, err
	}
	r.proxy, err = egressproxy.New(egressproxy.Config{
		Dir: filepath.Join(r.dir, "egress"), UID: injectUID, Special: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Log: hclog.NewNullLogger(),
	})
	if err != nil {
		return nil, err
	}
	if err := r.proxy.Start(ctx); err != nil {
		return nil, err
	}
	r.closing = append(r.closing, r.proxy.Stop)
	if err := r.hub(); err != nil {
		return nil, err
	}
	for _, jail := range []string{byNode, byHub, byTunnel} {
		if err := r.jail(jail); err != nil {
			return nil, err
		}
	}
	for _, jail := range []string{byLeast, byLeastHub} {
		if err := r.least(ctx, jail, jail == byLeastHub); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *injectRig) close() {
	for _, do := range slices.Backward(r.closing) {
		do()
	}
}

// authority makes that of the jails.
func (r *injectRig) authority() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomainsCritical: true,
		PermittedIPRanges: []*net.IPNet{{IP: net.IPv4(127, 0, 0, 1).To4(), Mask: net.CIDRMask(32, 32)}},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	r.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	r.key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return nil
}

// hub connects the hub's channel with the proxy.
func (r *injectRig) hub() error {
	pipe := bufconn.Listen(1 << 20)
	daemon := grpc.NewServer()
	nodev1.RegisterEgressServiceServer(daemon, egressproxy.NewServer(r.proxy))
	go func() { _ = daemon.Serve(pipe) }()
	r.closing = append(r.closing, daemon.Stop)
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		return err
	}
	r.closing = append(r.closing, func() { _ = conn.Close() })
	r.node = nodev1.NewEgressServiceClient(conn)
	h := injectHub{r: r}
	channels := channel.New(channel.Config{
		Queries: h, Credentials: h, Log: hclog.NewNullLogger(),
		Key:  func(context.Context, string, string, string) (string, error) { return r.key, nil },
		Node: func(string) (machine.Link, error) { return h, nil },
		Org:  func(string) (string, error) { return "org", nil },
	})
	channels.Changed("node", true)
	r.closing = append(r.closing, channels.Close)
	return nil
}

func (r *injectRig) jail(id string) error {
	l, err := net.Listen("unix", filepath.Join(r.dir, id+".sock"))
	if err != nil {
		return err
	}
	ports := []uint32{uint32(netip.MustParseAddrPort(r.server.Listener.Addr().String()).Port())}
	rules := &nodev1.Egress{Rules: []*nodev1.Egress_Rule{{Host: "127.0.0.1", Ports: ports}}}
	if id != byTunnel {
		rules.Authorities = []string{r.ca}
		rules.Bindings = []*nodev1.Egress_Binding{{
			Credential: "bench", Hosts: []string{"127.0.0.1"}, Ports: ports, Held: id == byHub, Roots: r.roots, Pushes: []string{"refs/heads/* create,update"},
		}}
	}
	return r.proxy.Serve(id, l, rules)
}

// client is a program in a jail.
func (r *injectRig) client(jail string, http2 bool) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.ca + r.roots))
	t := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: injectWorkers, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2,
	}
	t.Proxy, t.DialContext = throughJail(r.dir, jail)
	return &http.Client{Transport: t}
}

// throughJail returns what has a client leave by the socket of a jail.
func throughJail(dir, jail string) (func(*http.Request) (*url.URL, error), func(ctx context.Context, network, address string) (net.Conn, error)) {
	return http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128"}), func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, jail+".sock"))
	}
}

func (r *injectRig) get(client *http.Client) error {
	res, err := client.Get(r.server.URL) //nolint:noctx // it is short
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// memory returns what the proxy's process has in memory, in bytes.
func (r *injectRig) memory() (int64, error) {
	own := strconv.Itoa(os.Getpid())
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		text, err := os.ReadFile(path) //nolint:gosec // of this machine
		line, lineErr := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || lineErr != nil || !strings.Contains(string(text), "\nPPid:\t"+own+"\n") || !strings.Contains(string(line), r.dir) {
			continue
		}
		_, rest, _ := strings.Cut(string(text), "\nRssAnon:")
		var kib int64
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			return 0, err
		}
		return kib << 10, nil
	}
	return 0, errors.New("the egress proxy does not run")
}

// injectTimes are those of one jail and version of HTTP.
type injectTimes struct {
	requests, first []time.Duration
	done            atomic.Int64 // by the workers
}

func (t *injectTimes) round(r *injectRig, jail string, http2 bool) error {
	client := r.client(jail, http2)
	defer client.CloseIdleConnections()
	for i := range injectRequests + 20 {
		took, err := timed(func() error { return r.get(client) })
		if err != nil {
			return fmt.Errorf("%s: %w", jail, err)
		}
		if i >= 20 {
			t.requests = append(t.requests, took)
		}
	}
	end := time.Now().Add(injectSpell)
	var all sync.WaitGroup
	var failure atomic.Pointer[error]
	for range injectWorkers {
		all.Go(func() {
			for time.Now().Before(end) {
				if err := r.get(client); err != nil {
					failure.Store(&err)
					return
				}
				t.done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return fmt.Errorf("%s: %w", jail, *err)
	}
	for range injectFirst {
		client.CloseIdleConnections()
		took, err := timed(func() error { return r.get(client) })
		if err != nil {
			return err
		}
		t.first = append(t.first, took)
	}
	return nil
}

// injectCost measures requests with a credential, over connections that stay, against the
// same requests in a tunnel of the same proxy that is passed on as it is. ours and ratio are
// the median of a credential that the node inserts, in HTTP/1.1; the others have names. Those
// of node_least and hub_least are of a proxy that does no more than it must; see leastConfig.
func injectCost(ctx context.Context) (result, error) {
	text := strings.Repeat("x", 1000)
	r, err := newInjectRig(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	if err != nil {
		return nil, err
	}
	defer r.close()
	kinds := []string{byTunnel, byNode, byHub, byLeast, byLeastHub}
	times := map[string]*injectTimes{}
	for _, http2 := range []bool{false, true} {
		for range injectRounds {
			for _, jail := range kinds {
				name := jail + map[bool]string{false: "_h1", true: "_h2"}[http2]
				if times[name] == nil {
					times[name] = &injectTimes{}
				}
				if err := times[name].round(r, jail, http2); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, t := range times {
		slices.Sort(t.requests)
		slices.Sort(t.first)
	}
	p50 := func(name string) float64 { return percentile(times[name].requests, 50) }
	out := compared("ms", p50("node_h1"), p50("tunnel_h1"), "opaque tunnel", len(times["node_h1"].requests))
	for _, version := range []string{"_h1", "_h2"} {
		peer := times["tunnel"+version]
		out["peer"+version] = p50("tunnel" + version)
		out["peer_per_s"+version] = float64(peer.done.Load()) / (injectRounds * injectSpell.Seconds())
		for _, jail := range kinds[1:] {
			own := times[jail+version]
			out[jail+version+"_ms"] = p50(jail + version)
			out[jail+version+"_ratio"] = p50(jail+version) / p50("tunnel"+version)
			out[jail+version+"_per_s"] = float64(own.done.Load()) / (injectRounds * injectSpell.Seconds())
			out[jail+version+"_throughput"] = float64(own.done.Load()) / float64(peer.done.Load())
			out[jail+version+"_first_added_ms"] = percentile(own.first, 50) - percentile(peer.first, 50)
		}
	}
	return out, nil
}

// injectLarge measures an upload and a download of injectBytes with a credential that the
// node inserts, against those in a tunnel, and what the proxy's memory grows by. ratio is of
// the speed of the download; below 1 is slower than the tunnel.
func injectLarge(ctx context.Context) (result, error) {
	piece := make([]byte, 256<<10)
	r, err := newInjectRig(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		if r.URL.Path != "/large" {
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		for sent := 0; sent < injectBytes; sent += len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	if err != nil {
		return nil, err
	}
	defer r.close()
	const rounds = 1 // of 16 transfers
	all := map[string][]time.Duration{}
	var before int64
	most := map[string]int64{}
	for range rounds {
		for _, jail := range []string{byTunnel, byNode, byHub, byLeast} {
			for _, http2 := range []bool{false, true} {
				client := r.client(jail, http2)
				name := jail + map[bool]string{false: "_h1", true: "_h2"}[http2]
				if err := r.get(client); err != nil {
					return nil, err
				}
				if before == 0 {
					if before, err = r.memory(); err != nil {
						return nil, err
					}
				}
				for what, do := range map[string]func() (*http.Response, error){
					"_up": func() (*http.Response, error) {
						return client.Post(r.server.URL, "application/octet-stream", io.LimitReader(zeros{}, injectBytes)) //nolint:noctx // it ends
					},
					"_down": func() (*http.Response, error) { return client.Get(r.server.URL + "/large") }, //nolint:noctx // it ends
				} {
					took, err := timed(func() error {
						res, err := do()
						if err != nil {
							return err
						}
						defer res.Body.Close()
						_, err = io.Copy(io.Discard, res.Body)
						return err
					})
					if err != nil {
						return nil, fmt.Errorf("%s%s: %w", name, what, err)
					}
					all[name+what] = append(all[name+what], took)
					now, err := r.memory()
					if err != nil {
						return nil, err
					}
					if jail == byNode || jail == byHub {
						most[jail] = max(most[jail], now)
					}
				}
				client.CloseIdleConnections()
			}
		}
	}
	speed := func(name string) float64 { // MB/s
		slices.Sort(all[name])
		return injectBytes / 1e6 / (percentile(all[name], 50) / 1000)
	}
	out := compared("MB/s", speed("node_h1_down"), speed("tunnel_h1_down"), "opaque tunnel", rounds)
	for _, what := range []string{"_h1_up", "_h1_down", "_h2_up", "_h2_down"} {
		out["peer"+what] = speed("tunnel" + what)
		for _, jail := range []string{byNode, byHub, byLeast} {
			out[jail+what] = speed(jail + what)
			out[jail+what+"_ratio"] = speed(jail+what) / speed("tunnel"+what)
		}
	}
	for jail, bytes := range most {
		out[jail+"_memory_growth_mb"] = float64(bytes-before) / 1e6
	}
	return out, nil
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
