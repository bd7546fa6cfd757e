package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	egressRounds   = 5
	egressRequests = 400 // of a round, over one connection
	egressTunnels  = 100 // of a round, each a new connection with TLS
	egressBytes    = 256 << 20
	// envEgress names what a process of this program is for: to be the client,
	// in a jail and outside of one, or the server, in a network of its own.
	envEgress = "DECKHAND_BENCH_EGRESS"
)

// egressTimes is what a client measured, in nanoseconds.
type egressTimes struct {
	Requests, Tunnels []time.Duration
	// Download is the time to download egressBytes.
	Download time.Duration
}

// egressRole does what this process was started for, if it is for that.
func egressRole() bool {
	role, at, _ := strings.Cut(os.Getenv(envEgress), " ")
	var err error
	switch role {
	case "client":
		err = egressClient(at)
	case "server":
		err = egressServer()
	default:
		return false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	return true
}

// egressServer serves plain and with TLS, and says where, until its input ends.
func egressServer() error {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			return
		}
		piece := make([]byte, 256<<10)
		for sent := 0; sent < egressBytes; sent += len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	plain, secure := &http.Server{Addr: ":8080", Handler: h, ReadHeaderTimeout: time.Minute}, httptest.NewUnstartedServer(h)
	secure.StartTLS() // for its certificate
	defer secure.Close()
	failed := make(chan error, 2)
	go func() { failed <- plain.ListenAndServe() }()
	go func() {
		s := &http.Server{Addr: ":8443", Handler: h, TLSConfig: secure.TLS, ReadHeaderTimeout: time.Minute}
		failed <- s.ListenAndServeTLS("", "")
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		failed <- nil
	}()
	return <-failed
}

// egressClient measures requests to a host as any program makes them, by the
// proxy of its environment if there is one, and writes what it measured beside
// itself.
func egressClient(host string) error {
	tr := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is timed, not trusted
	}
	client := &http.Client{Transport: tr}
	get := func(url string) (time.Duration, error) {
		return timed(func() error {
			res, err := client.Get(url) //nolint:gosec // the host that it was told
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return errors.New(res.Status)
			}
			_, err = io.Copy(io.Discard, res.Body)
			return err
		})
	}
	var out egressTimes
	for i := range egressRequests + 20 {
		took, err := get("http://" + host + ":8080/")
		if err != nil {
			return err
		}
		if i >= 20 {
			out.Requests = append(out.Requests, took)
		}
	}
	for range egressTunnels {
		tr.CloseIdleConnections()
		took, err := get("https://" + host + ":8443/")
		if err != nil {
			return err
		}
		out.Tunnels = append(out.Tunnels, took)
	}
	var err error
	if out.Download, err = get("https://" + host + ":8443/large"); err != nil {
		return err
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile("times.json", data, 0o644) //nolint:gosec // the jail's user wrote it
}

// farHost is a host behind a link of 1 Gbit/s.
type farHost struct{ name, addr string }

func (m *nodeRig) farHost(ctx context.Context, self string) (*farHost, error) {
	tag := strings.TrimPrefix(ident.New("x"), "x_")
	f := &farHost{name: "dhbench-" + tag[:8], addr: "10.213.77.2"}
	port := "dhb" + tag[:8]
	run := func(words string) error {
		args := strings.Fields(words)
		if out, err := osexec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // of our own making
			return fmt.Errorf("%s: %w: %s", words, err, out)
		}
		return nil
	}
	if err := run("ip netns add " + f.name); err != nil {
		return nil, err
	}
	m.later(func() error { return osexec.Command("ip", "netns", "delete", f.name).Run() }) //nolint:gosec // of our own making
	const shape = " root tbf rate 1gbit burst 1mb latency 50ms"
	for _, words := range []string{
		"ip link add " + port + " type veth peer name eth0 netns " + f.name,
		"ip addr add 10.213.77.1/30 dev " + port,
		"ip link set " + port + " up",
		"ip -n " + f.name + " addr add " + f.addr + "/30 dev eth0",
		"ip -n " + f.name + " link set eth0 up",
		"ip -n " + f.name + " link set lo up",
		"tc qdisc add dev " + port + shape,
		"tc -n " + f.name + " qdisc add dev eth0" + shape,
	} {
		if err := run(words); err != nil {
			return nil, err
		}
	}
	server := osexec.CommandContext(ctx, "ip", "netns", "exec", f.name, self) //nolint:gosec // this program
	server.Env = append(os.Environ(), envEgress+"=server")
	server.Stderr = os.Stderr
	alive, err := server.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	m.later(func() error { return errors.Join(alive.Close(), server.Wait()) })
	return f, f.await(ctx)
}

// await returns when the host serves.
func (f *farHost) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+":8080/", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			return res.Body.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// egressCost measures a program in a jail, which reaches a host by the node's
// proxy, against the same program outside, which reaches it by itself: requests
// of plain HTTP over a connection that stays, new tunnels with TLS and a request
// each, and a download over TLS, all over a link shaped to 1 Gbit/s.
func egressCost(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	far, err := m.farHost(ctx, self)
	if err != nil {
		return nil, err
	}
	id := ident.New("jail")
	if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: "host", WorkspaceBytes: 1 << 30, Egress: &nodev1.Egress{
		Rules: []*nodev1.Egress_Rule{{Host: far.addr, Ports: []uint32{8080, 8443}}},
	}}); err != nil {
		return nil, err
	}
	inside, err := m.jails.Workspace(id)
	if err != nil {
		return nil, err
	}
	outside := filepath.Join(m.dir, "direct")
	if err := os.Mkdir(outside, 0o755); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(inside, "client"), program, 0o755); err != nil { //nolint:gosec // a program
		return nil, err
	}
	role := envEgress + "=client " + far.addr
	var ours, direct egressTimes
	var downs, ups []time.Duration
	for range egressRounds {
		spec := trueIn(id, false)
		spec.Argv, spec.Env = []string{"/workspace/client"}, []string{role}
		if _, err := m.runSpec(ctx, spec); err != nil {
			return nil, err
		}
		down, err := ours.add(inside)
		if err != nil {
			return nil, err
		}
		cmd := osexec.CommandContext(ctx, self) //nolint:gosec // this program
		cmd.Dir, cmd.Env, cmd.Stderr = outside, []string{role}, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, err
		}
		up, err := direct.add(outside)
		if err != nil {
			return nil, err
		}
		downs, ups = append(downs, down), append(ups, up)
	}
	for _, all := range [][]time.Duration{ours.Requests, ours.Tunnels, direct.Requests, direct.Tunnels, downs, ups} {
		slices.Sort(all)
	}
	out := compared("ms", percentile(ours.Requests, 50), percentile(direct.Requests, 50), "direct", len(ours.Requests))
	out["added"] = percentile(ours.Requests, 50) - percentile(direct.Requests, 50)
	out["added_tunnel"] = percentile(ours.Tunnels, 50) - percentile(direct.Tunnels, 50)
	mbps := func(sorted []time.Duration) float64 { return egressBytes * 8 / 1e6 / (percentile(sorted, 50) / 1000) }
	out["mbit_s"], out["peer_mbit_s"] = mbps(downs), mbps(ups)
	out["ratio"] = mbps(downs) / mbps(ups) // of the throughput
	return out, nil
}

// add reads what a client wrote, and returns what its download took.
func (t *egressTimes) add(dir string) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join(dir, "times.json"))
	if err != nil {
		return 0, err
	}
	var one egressTimes
	if err := json.Unmarshal(data, &one); err != nil {
		return 0, err
	}
	t.Requests, t.Tunnels = append(t.Requests, one.Requests...), append(t.Tunnels, one.Tunnels...)
	return one.Download, os.Remove(filepath.Join(dir, "times.json"))
}
