// Package hubtest runs a real hub for tests, with its own database, the embedded bus, and
// listeners on free loopback ports. Failures to start fail the test; the hub stops at its
// end.
package hubtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Hub is a running hub and what its callers need.
type Hub struct {
	*hub.Hub

	DataDir     string
	DatabaseURL string
	// OrgID is the organisation that the tokens belong to; Start's is the operators'.
	OrgID       string
	AdminToken  string
	WorkerToken string
}

// leaseTTL is longer than any test runs.
const leaseTTL = 10 * time.Minute

// fewConnections limits the pool of a hub that one test uses. For each connection
// PostgreSQL starts a process, which has to read the catalogue and plan all statements.
const fewConnections = "&pool_max_conns=6"

// Config returns a configuration on a fresh database and free ports; change it
// before Start.
func Config(t testing.TB) hub.Config {
	t.Helper()
	return hub.Config{
		// The workers of tests do not renew their leases, and a machine may be slow. A
		// test in which a lease must end sets a short one.
		LeaseTTL: leaseTTL,
		Listen:   "127.0.0.1:0", EdgeListen: "127.0.0.1:0", DataDir: t.TempDir(),
		DatabaseURL: config.Secret(storetest.Database(t)), InProcessNATS: true, MaxPerUser: 1000, APIRate: -1, ProviderAllow: "127.0.0.0/8",
		DrainTimeout: 5 * time.Second,
		Redact:       &redact.Redactor{}, Log: Log(t),
	}
}

// Beside returns a configuration of another hub of the installation that cfg
// made: the same database, bus and keyset, and a data folder of its own. The
// first hub must have been started.
func Beside(t testing.TB, cfg hub.Config) hub.Config {
	t.Helper()
	keyset, err := os.ReadFile(filepath.Join(cfg.DataDir, "keyset.json"))
	require.NoError(t, err)
	cfg.DataDir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cfg.DataDir, "keyset.json"), keyset, 0o600))
	cfg.Listen, cfg.EdgeListen, cfg.Redact = "127.0.0.1:0", "127.0.0.1:0", &redact.Redactor{}
	return cfg
}

// Log returns a logger that writes to the test's log.
func Log(t testing.TB) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "hub", Level: hclog.Warn, Output: t.Output()})
}

// Start runs a hub until the test ends.
func Start(t testing.TB, cfg hub.Config) *Hub {
	t.Helper()
	return start(t, cfg, fewConnections)
}

// start is Start, with parameters for the URL of the hub's database.
func start(t testing.TB, cfg hub.Config, parameters string) *Hub {
	t.Helper()
	database := cfg.DatabaseURL.Reveal()
	cfg.DatabaseURL = config.Secret(database + parameters)
	h, err := cfg.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Start(t.Context()))
	t.Cleanup(h.Stop)
	return &Hub{
		Hub: h, DataDir: cfg.DataDir, DatabaseURL: database, OrgID: auth.Operators,
		AdminToken: token(t, cfg.DataDir, datadir.AdminTokenFile), WorkerToken: token(t, cfg.DataDir, datadir.WorkerTokenFile),
	}
}

func token(t testing.TB, dir, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	return strings.TrimSpace(string(data))
}

// Client returns a client of the hub with a token; "" for none. It tries no call again.
func (h *Hub) Client(t testing.TB, token string) *sdk.Client {
	t.Helper()
	c, err := sdk.New(sdk.Config{URL: h.URL(), Token: token, Retries: -1})
	require.NoError(t, err)
	return c
}
