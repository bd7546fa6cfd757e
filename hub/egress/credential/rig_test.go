package credential_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	org  = "org_1"
	jail = "jail_1"
	node = "node_1"
)

var admin = event.Actor{Kind: event.User, ID: "ann"}

// loopback lets servers be on this machine.
var loopback = dialguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Flag: "--provider-allow"}

// rig is an organisation with an agent coder, whose task runs in a jail.
type rig struct {
	*credential.Credentials

	t        *testing.T
	store    *store.Store
	conn     *pgx.Conn
	redact   *redact.Redactor
	recorder *event.Recorder
	vault    *vault.Vault
	// persona is that of the task.
	persona *persona.Persona
	// ended are the credentials that nodes were told to forget.
	ended []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, redact: &redact.Redactor{}, persona: &persona.Persona{Name: "coder", Mode: persona.Autonomous}}
	database := storetest.Database(t)
	var err error
	r.store, err = store.Open(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(r.store.Close)
	r.conn, err = pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close(context.Background()) })
	r.exec(`INSERT INTO organisations (id, name) VALUES ('org_1', 'org_1'), ('org_2', 'org_2')`)
	r.exec(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, state, reason, workspace_scope, jail_id, node_id, created_by, created_by_role, correlation_id, lineage_id)
		VALUES ('task_1', 'org_1', 'agent_1', 1, 't', 'g', 'waiting', 'x', 'agent', 'jail_1', 'node_1', 'ann', 'advanced', 'c', 'task_1'),
		       ('task_9', 'org_2', 'agent_9', 1, 't', 'g', 'waiting', 'x', 'agent', 'jail_9', 'node_9', 'bob', 'advanced', 'c', 'task_9')`)
	r.vault, err = vault.Open(filepath.Join(t.TempDir(), "keyset.json"))
	require.NoError(t, err)
	r.recorder = event.NewRecorder(event.RecorderConfig{Store: r.store, Redact: r.redact, Notify: func(string, string) {}})
	r.Credentials = r.guarded(loopback)
	return r
}

// guarded creates Credentials of the same organisation with another guard.
func (r *rig) guarded(g dialguard.Guard) *credential.Credentials {
	return credential.New(credential.Config{
		Store: r.store, Recorder: r.recorder, Vault: r.vault, Redact: r.redact, Guard: g,
		Persona: func(context.Context, db.Task) (*persona.Persona, error) { return r.persona, nil },
		Ended:   func(_ context.Context, orgID, name string) { r.ended = append(r.ended, orgID+"/"+name) },
	})
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.conn.Exec(context.Background(), sql, args...)
	require.NoError(r.t, err)
}

// create stores a credential that the agent may use, and has the persona list it.
func (r *rig) create(in *deckhandv1.CreateCredentialRequest) *deckhandv1.Credential {
	r.t.Helper()
	if in.GetAgents() == nil {
		in.Agents = []string{"coder"}
	}
	got, err := r.Create(r.t.Context(), org, in, admin)
	require.NoError(r.t, err)
	r.persona.Credentials = append(r.persona.Credentials, persona.Credential{Name: in.GetName()})
	return got
}

// server is one on this machine with TLS.
type server struct {
	*httptest.Server

	host  string
	port  uint32
	roots string
}

func serve(t *testing.T, handler http.HandlerFunc) server {
	t.Helper()
	s := server{Server: httptest.NewUnstartedServer(handler)}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	require.NoError(t, err)
	s.host, s.port = u.Hostname(), uint32(port)
	s.roots = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

// bound is a request to create a credential for a server.
func (s server) bound(name string, kind credential.Kind, value *deckhandv1.CredentialValue) *deckhandv1.CreateCredentialRequest {
	return &deckhandv1.CreateCredentialRequest{
		Name: name, Kind: string(kind), Hosts: []string{s.host}, Ports: []uint32{s.port}, Private: true, Roots: s.roots, Value: value,
	}
}

// send sends a request as a node would, and returns the status.
func (s server) send(t *testing.T, req *http.Request) int {
	t.Helper()
	res, err := s.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

func request(t *testing.T, method, to, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	require.NoError(t, err)
	return req
}

// refused verifies that an error is one of a credential, of a kind, and says something.
func refused(t *testing.T, err error, kind fault.Kind, says string) {
	t.Helper()
	e := fault.As(err)
	require.NotNil(t, e, "%v", err)
	require.Equal(t, kind, e.Kind, "%v", err)
	require.Contains(t, e.Message, says)
	require.NotEmpty(t, e.Fix)
}

// nowhere finds no text of secrets in any column of any table that is not sealed, nor sealed.
func (r *rig) nowhere(secrets ...string) {
	r.t.Helper()
	rows, err := r.conn.Query(context.Background(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	require.NoError(r.t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r.t, err)
	require.Greater(r.t, len(tables), 30)
	for _, table := range tables {
		for _, secret := range secrets {
			var n int
			// A row as text has its bytea columns in hexadecimal.
			require.NoError(r.t, r.conn.QueryRow(context.Background(), fmt.Sprintf(
				`SELECT count(*) FROM %s AS t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, encode($1::text::bytea, 'hex')) > 0 OR strpos(t::text, encode($1::text::bytea, 'base64')) > 0`,
				pgx.Identifier{table}.Sanitize()), secret).Scan(&n), table)
			require.Zero(r.t, n, "table %s has a secret", table)
		}
	}
}

// dead is the address of a port where nothing listens.
func dead(t *testing.T) (host string, port uint32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	require.NoError(t, l.Close())
	return "127.0.0.1", uint32(addr.Port) //nolint:gosec // a port
}
