package test

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

func compose(t *testing.T, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"},
		cli.WithWorkingDirectory("../compose"), cli.WithEnv(env), cli.WithEnvFiles("../compose/.env"), cli.WithDotEnv)
	require.NoError(t, err)
	// It validates against the schema of the Compose specification.
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestTheComposeFileIsValidAndComplete(t *testing.T) {
	t.Parallel()
	p := compose(t, "DECKHAND_HOST=agents.example.com", "DECKHAND_BIND=0.0.0.0")
	names := slices.Sorted(maps.Keys(p.Services))
	require.Equal(t, []string{"balancer", "certificates", "hub-1", "hub-2", "nats", "postgres", "worker-1", "worker-2", "worker-token"}, names)
	for name, s := range p.Services {
		if name == "certificates" || name == "worker-token" {
			continue // they end
		}
		require.NotNil(t, s.HealthCheck, name)
		require.NotEmpty(t, s.HealthCheck.Test, name)
		require.Equal(t, "unless-stopped", s.Restart, name)
	}
	for _, name := range []string{"hub-1", "hub-2", "worker-1", "worker-2"} {
		s := p.Services[name]
		require.Equal(t, "deckhand", s.Image)
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop)
	}
	for _, name := range []string{"hub-1", "hub-2"} {
		env := p.Services[name].Environment
		require.Equal(t, "agents.example.com:7801", *env["DECKHAND_EDGE_ADDRESS"])
		require.Equal(t, "https://agents.example.com:7800", *env["DECKHAND_PUBLIC_URL"])
		require.Equal(t, name+":7801", *env["DECKHAND_PEER_ADDRESS"])
		require.Equal(t, "postgres://deckhand:change-me-0@postgres:5432/deckhand?sslmode=disable", *env["DECKHAND_DATABASE_URL"])
		require.Equal(t, []string{"authority", "certificates", "hub"}, volumes(p.Services[name]))
		require.Equal(t, *p.Services["balancer"].Networks["default"], types.ServiceNetworkConfig{Ipv4Address: strings.TrimSuffix(*env["DECKHAND_TRUSTED_PROXIES"], "/32")})
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		require.Equal(t, []string{"authority", "worker"}, volumes(p.Services[name]), "workers see neither the hubs' keys nor their tokens")
		require.Contains(t, p.Services[name].DependsOn, "worker-token")
	}
	require.Contains(t, p.Services["hub-2"].DependsOn, "hub-1", "the second hub finds keyset and schema made")
	require.Contains(t, p.Services["hub-2"].DependsOn, "postgres")
	require.Equal(t, "0.0.0.0", p.Services["balancer"].Ports[0].HostIP)

	// Every variable of .env is used, and every one that is needed is there.
	text, err := os.ReadFile("../compose/compose.yaml")
	require.NoError(t, err)
	env, err := os.ReadFile("../compose/.env")
	require.NoError(t, err)
	for line := range strings.Lines(string(env)) {
		if name, _, set := strings.Cut(line, "="); set && !strings.HasPrefix(line, "#") {
			require.Contains(t, string(text), "${"+name, "a setting of .env that nothing reads")
		}
	}
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithEnv([]string{"NATS_HUB_PASSWORD=x"}))
	require.NoError(t, err)
	_, err = options.LoadProject(t.Context())
	require.ErrorContains(t, err, "set it in .env", "no password has a default")
}

// volumes are the volumes that a service has, sorted.
func volumes(s types.ServiceConfig) (names []string) {
	for _, v := range s.Volumes {
		names = append(names, v.Source)
	}
	slices.Sort(names)
	return names
}

// The configuration of NATS is read by its server, and the script that makes
// certificates is run: what it makes is good for the names under which the parts reach
// one another.
func TestTheFilesOfTheComposeFileWork(t *testing.T) {
	p := compose(t, "DECKHAND_HOST=agents.example.com", "NATS_HUB_PASSWORD=2024-01", "NATS_EVENTS_PASSWORD=12345")
	dir := t.TempDir()
	for name, c := range p.Configs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(c.Content), 0o600))
	}

	for _, volume := range []string{"authority-key", "authority", "certificates", "nats-certificates", "hub", "worker"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, volume), 0o700))
	}
	// here puts the paths of volumes below the folder.
	here := func(text string) string {
		for _, volume := range []string{"authority", "certificates", "nats-certificates", "hub", "worker"} {
			for _, before := range []string{" ", "\""} {
				text = strings.ReplaceAll(text, before+"/"+volume, before+dir+"/"+volume)
			}
		}
		return text
	}
	script := filepath.Join(dir, "make-certificates")
	text := here(p.Configs["make-certificates"].Content)
	if os.Geteuid() != 0 {
		text = strings.ReplaceAll(text, "chown ", "true ")
	}
	require.NoError(t, os.WriteFile(script, []byte(text), 0o600))
	run := func(host string) []byte {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "sh", script, host).CombinedOutput()
		require.NoError(t, err, string(out))
		data, err := os.ReadFile(filepath.Join(dir, "certificates/hub.pem"))
		require.NoError(t, err)
		return data
	}
	parse := func(name string) *x509.Certificate {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		block, _ := pem.Decode(data)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		return cert
	}
	roots := x509.NewCertPool()
	for _, host := range []string{"192.0.2.7", "agents.example.com"} {
		first := run(host)
		require.Equal(t, first, run(host), "the second time nothing is made")
		roots.AddCert(parse("authority/ca.pem"))
		for name, hosts := range map[string][]string{"certificates/hub.pem": {host, "localhost", "balancer", "hub-1", "hub-2"}, "nats-certificates/nats.pem": {"nats"}} {
			for _, host := range hosts {
				_, err := parse(name).Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: time.Now()})
				require.NoError(t, err, "%s for %s", name, host)
			}
		}
	}

	// The balancer's own program reads its configuration where it is installed.
	if haproxy, err := exec.LookPath("haproxy"); err == nil {
		path := filepath.Join(dir, "haproxy.cfg")
		require.NoError(t, os.WriteFile(path, []byte(here(p.Configs["balancer"].Content)), 0o600))
		out, err := exec.CommandContext(t.Context(), haproxy, "-c", "-f", path).CombinedOutput()
		require.NoError(t, err, string(out))
	}

	conf := strings.NewReplacer("/certificates/", dir+"/nats-certificates/", `"/data"`, `"`+filepath.Join(dir, "jetstream")+`"`, "0.0.0.0:4222", "127.0.0.1:-1", "127.0.0.1:8222", "127.0.0.1:-1").
		Replace(p.Configs["nats"].Content)
	path := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	for name, value := range p.Services["nats"].Environment {
		t.Setenv(name, *value)
	}
	options, err := server.ProcessConfigFile(path)
	require.NoError(t, err)
	require.True(t, options.JetStream)
	var users []string
	for _, user := range options.Users {
		users = append(users, user.Username+" "+user.Password)
	}
	slices.Sort(users)
	require.Equal(t, []string{"hub 2024-01", "hub-events 12345", "worker change-me-3"}, users)
	require.Equal(t, *p.Services["hub-1"].Environment["DECKHAND_NATS_WORKER_URL"], "tls://worker:change-me-3@nats:4222")
}
