package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/node/containerd"
)

// envNATS makes the test binary play a NATS server, of the configuration that
// it names.
const envNATS = "DECKHAND_TEST_NATS"

// serveNATS is that server. It does not return.
func serveNATS(config string) {
	opts, err := server.ProcessConfigFile(config)
	if err == nil {
		var s *server.Server
		if s, err = server.NewServer(opts); err == nil {
			s.ConfigureLogger()
			s.Start()
			s.WaitForShutdown()
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startNATS starts a NATS server with the documented configuration.
func (r *rig) startNATS(on *host, address string) {
	r.nats = r.startNATSCluster([]*host{on}, address)[0]
}

// startNATSCluster starts a NATS server with the documented configuration at each of the
// addresses, on the host of the same number; several are members of one cluster.
func (r *rig) startNATSCluster(on []*host, addresses ...string) (members []*unit) {
	documented, err := os.ReadFile("../../docs/nats.conf")
	require.NoError(r.t, err)
	certificate, key := r.natsPEM("cert", addresses...), r.natsPEM("key", addresses...)
	urls := func(user, password string) string {
		var out []string
		for _, address := range addresses {
			out = append(out, fmt.Sprintf("tls://%s:%s@%s", user, password, address))
		}
		return strings.Join(out, ",")
	}
	r.natsEnv = []string{
		"DECKHAND_NATS_CA=" + certificate,
		"DECKHAND_NATS_URL=" + urls("hub", "change-me-1"),
		"DECKHAND_NATS_EVENTS_URL=" + urls("hub-events", "change-me-2"),
		"DECKHAND_NATS_WORKER_URL=" + urls("worker", "change-me-3"),
	}
	var routes []string
	for _, address := range addresses {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+routeOf(address)))
	}
	for i, address := range addresses {
		name := "nats"
		text := fmt.Sprintf("listen: %q\ntls { cert_file: %q, key_file: %q }\n", address, certificate, key)
		if len(addresses) > 1 {
			name = fmt.Sprintf("nats-%d", i+1)
			text += fmt.Sprintf("server_name: %s\ncluster { name: deckhand, listen: %q, routes: [%s] }\n", name, routeOf(address), strings.Join(routes, ", "))
		}
		const memory = "max_memory_store: 256MB"
		require.Contains(r.t, string(documented), memory)
		text += strings.Replace(string(documented), memory, fmt.Sprintf("%s, store_dir: %q", memory, filepath.Join(r.dir, name)), 1)
		config := filepath.Join(r.dir, name+".conf")
		require.NoError(r.t, os.WriteFile(config, []byte(text), 0o600))
		members = append(members, r.unit(name, syscall.SIGTERM, func() *exec.Cmd {
			cmd := on[i].command(os.Args[0])
			cmd.Env = append(os.Environ(), envNATS+"="+config)
			return cmd
		}))
	}
	return members
}

// routeOf returns where the NATS server of an address listens for the others of its cluster.
func routeOf(address string) string {
	host, _, _ := net.SplitHostPort(address) // it has a port
	return net.JoinHostPort(host, "6222")
}

// natsPEM returns the file of the certificate or the key of the NATS servers, which
// it makes the first time.
func (r *rig) natsPEM(which string, addresses ...string) string {
	path := func(name string) string { return filepath.Join(r.dir, "nats-"+name+".pem") }
	if _, err := os.Stat(path(which)); err == nil {
		return path(which)
	}
	var ips []net.IP
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		require.NoError(r.t, err)
		ips = append(ips, net.ParseIP(host))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(r.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: ips, IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(r.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(r.t, err)
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: certificate}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(r.t, os.WriteFile(path(name), pem.EncodeToMemory(block), 0o600))
	}
	return path(which)
}

// startPostgres starts a cluster that keeps what it has committed.
func (r *rig) startPostgres() {
	ctx := r.t.Context()
	cluster, err := postgres.Config{DataDir: filepath.Join(r.dir, "pg")}.Complete(ctx)
	require.NoError(r.t, err)
	require.NoError(r.t, cluster.Prepare(ctx))
	command := cluster.Command()
	r.pg = r.unit("postgres", syscall.SIGINT, func() *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cluster.Credential()}
		return cmd
	})
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.NoError(r.t, cluster.AwaitReady(ready))
	require.NoError(r.t, cluster.EnsureDatabase(ctx, "deckhand"))
	r.database = cluster.URL("deckhand")
}

// startContainerd starts a containerd that all nodes of the rig share.
func (r *rig) startContainerd() {
	home := filepath.Join(r.dir, "containerd")
	require.NoError(r.t, os.MkdirAll(home, 0o711))
	r.socket = filepath.Join(home, "containerd.sock")
	config := filepath.Join(home, "config.toml")
	require.NoError(r.t, os.WriteFile(config, fmt.Appendf(nil, `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = %q
`, filepath.Join(home, "root"), r.containerdState(), r.socket), 0o600))
	r.containerd = r.unit("containerd", syscall.SIGTERM, func() *exec.Cmd {
		return exec.Command("containerd", "--config", config)
	})
	r.eventually(time.Minute, "containerd to serve", func() bool { return containerd.Running(r.socket) })
}

func (r *rig) containerdState() string { return filepath.Join(r.dir, "containerd", "state") }

// initOf returns the pid of a jail's init, as containerd's shim reports it; 0 if there is
// none. A jail's container has another name each time it is created, and the jail's name
// as its host name.
func (r *rig) initOf(node int, jailID string) int {
	bundles, err := filepath.Glob(filepath.Join(r.containerdState(), "io.containerd.runtime.v2.task", r.namespace(node), "*"))
	require.NoError(r.t, err)
	for _, bundle := range bundles {
		var spec specs.Spec
		data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
		if err != nil || json.Unmarshal(data, &spec) != nil || spec.Hostname != jailID {
			continue
		}
		if pid := initIn(bundle); pid != 0 {
			return pid
		}
	}
	return 0
}

func initIn(bundle string) int {
	data, err := os.ReadFile(filepath.Join(bundle, "init.pid"))
	var pid int
	if err == nil {
		_, err = fmt.Sscan(string(data), &pid)
	}
	if err != nil {
		return 0
	}
	// A pid that was reused belongs to another process.
	if exe, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || !strings.Contains(string(exe), "deckhand-init") {
		return 0
	}
	return pid
}

// reachable reports whether a process listens at an address of this machine's own
// network.
func reachable(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
