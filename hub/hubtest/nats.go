package hubtest

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/internal/config"
)

// NATS is a private server, configured like docs/nats.conf, which can be stopped and
// started again at its address.
type NATS struct {
	t      testing.TB
	opts   *server.Options
	server *server.Server // nil while it is stopped
}

// NewNATS runs a NATS server until the test ends.
func NewNATS(t testing.TB) *NATS {
	t.Helper()
	// Tests run in the folder of their package, below docs' own.
	top, err := os.Getwd()
	require.NoError(t, err)
	for !exists(filepath.Join(top, "go.mod")) {
		require.NotEqual(t, top, filepath.Dir(top), "the tests run in the module")
		top = filepath.Dir(top)
	}
	opts, err := server.ProcessConfigFile(filepath.Join(top, "docs", "nats.conf"))
	require.NoError(t, err)
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true, true
	n := &NATS{t: t, opts: opts}
	n.Start()
	t.Cleanup(n.Stop)
	return n
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Start runs the server; after a stop it uses the same address.
func (n *NATS) Start() {
	n.t.Helper()
	s, err := server.NewServer(n.opts.Clone())
	require.NoError(n.t, err)
	s.Start()
	require.True(n.t, s.ReadyForConnections(20*time.Second))
	address, ok := s.Addr().(*net.TCPAddr)
	require.True(n.t, ok)
	n.opts.Port, n.server = address.Port, s
}

// Stop ends the server, which forgets everything.
func (n *NATS) Stop() {
	if n.server != nil {
		n.server.Shutdown()
		n.server.WaitForShutdown()
		n.server = nil
	}
}

// Use makes a hub use this server.
func (n *NATS) Use(cfg *hub.Config) {
	url := func(user, password string) config.Secret {
		return config.Secret("nats://" + user + ":" + password + "@" + n.server.Addr().String())
	}
	cfg.InProcessNATS = false
	cfg.NATSURL, cfg.NATSEventsURL = url("hub", "change-me-1"), url("hub-events", "change-me-2")
	cfg.NATSWorkerURL = url("worker", "change-me-3")
}
