package node

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/worker"
)

// A bus on a network interface only accepts TLS, with a certificate of the hub's own
// authority: workers get the authority's certificate.
func TestTheBusSpeaksTLSOffLoopback(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.InProcessNATS, cfg.NATSListen, cfg.NATSLifecyclePassword = false, "0.0.0.0:0", "listen-1234-listen"
	h := hubtest.Start(t, cfg)

	w, err := worker.Config{HubURL: h.URL(), Token: config.Secret(h.WorkerToken), Log: hubtest.Log(t)}.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	t.Cleanup(w.Stop)
	require.Eventually(t, func() bool {
		for _, look := range w.Ready() {
			if look.Problem != nil {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond, "the worker hears wake-ups")

	told, err := url.Parse(h.NATS().URL())
	require.NoError(t, err)
	require.Equal(t, "tls", told.Scheme)
	require.False(t, net.ParseIP(told.Hostname()).IsUnspecified(), "workers elsewhere can dial it")
	local := "127.0.0.1:" + told.Port()
	user := nats.UserInfo("lifecycle", "listen-1234-listen")
	trust := func(pool *x509.CertPool, name string) nats.Option {
		return nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: name})
	}
	pem, err := os.ReadFile(filepath.Join(cfg.DataDir, hub.NATSCAFile))
	require.NoError(t, err)
	own := x509.NewCertPool()
	require.True(t, own.AppendCertsFromPEM(pem))
	conn, err := nats.Connect("tls://"+local, user, trust(own, told.Hostname()))
	require.NoError(t, err, "another client finds the address in the certificate")
	conn.Close()
	_, err = nats.Connect("tls://"+local, user, trust(x509.NewCertPool(), ""))
	require.ErrorContains(t, err, "unknown authority")

	// A client that does not care for TLS gets no further.
	raw, err := net.Dial("tcp", local)
	require.NoError(t, err)
	defer raw.Close()
	require.NoError(t, raw.SetDeadline(time.Now().Add(time.Minute)))
	_, err = raw.Write([]byte(`CONNECT {"verbose":true,"user":"lifecycle","pass":"listen-1234-listen"}` + "\r\nPING\r\n"))
	require.NoError(t, err)
	var answer []byte
	for buf := make([]byte, 4096); ; {
		n, err := raw.Read(buf)
		answer = append(answer, buf[:n]...)
		if err != nil {
			break
		}
	}
	require.NotContains(t, string(answer), "PONG")
	require.NotContains(t, string(answer), "+OK")
}

// Plain text to a NATS server on the network is refused before anything starts,
// with the flag and what to do.
func TestPlainTextToANATSServerOnTheNetworkIsRefused(t *testing.T) {
	t.Parallel()
	for flag, set := range map[string]func(*hub.Config, config.Secret){
		"nats-url":        func(c *hub.Config, url config.Secret) { c.NATSURL = url },
		"nats-events-url": func(c *hub.Config, url config.Secret) { c.NATSURL, c.NATSEventsURL = "nats://127.0.0.1:4222", url },
		"nats-worker-url": func(c *hub.Config, url config.Secret) { c.NATSURL, c.NATSWorkerURL = "nats://127.0.0.1:4222", url },
	} {
		for _, given := range []config.Secret{
			"nats://hub:hunter2@192.0.2.7:4222", "tls://hub:hunter2@192.0.2.7:4222, nats://hub:hunter2@nats.example:4222", "hub:hunter2@192.0.2.7:4222", "ws://hub:hunter2@192.0.2.7",
		} {
			cfg := hub.Config{DataDir: t.TempDir(), DatabaseURL: "postgres://nowhere", Listen: "127.0.0.1:0"}
			set(&cfg, given)
			_, err := cfg.Complete(t.Context())
			require.ErrorContains(t, err, flag+" reaches ", given.Reveal())
			require.ErrorContains(t, err, "begin --"+flag+" with tls://")
			require.NotContains(t, err.Error(), "hunter2")
		}
	}
	cfg := hub.Config{DataDir: t.TempDir(), DatabaseURL: "postgres://nowhere", Listen: "127.0.0.1:0", NATSURL: "tls://192.0.2.7:4222", NATSCA: "/nowhere.pem"}
	_, err := cfg.Complete(t.Context())
	require.ErrorContains(t, err, "nats-ca cannot be read")
}
