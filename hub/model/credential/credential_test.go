package credential_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/storetest"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	org   = "org_1"
	valid = "sk-ant-canary-0123456789-abcd"
)

type rig struct {
	*credential.Credentials

	// guarded makes others of the same store.
	guarded func(dialguard.Guard) *credential.Credentials

	conn   *pgx.Conn
	redact *redact.Redactor
	url    string
	status int // the provider's response to a valid key
}

// loopback lets an organisation's servers be on this machine.
var loopback = dialguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Flag: "--provider-allow"}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{redact: &redact.Redactor{}, status: http.StatusOK}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, got := range []string{req.Header.Get("X-Api-Key"), req.Header.Get("X-Goog-Api-Key"), req.Header.Get("Authorization")} {
			if got == valid || got == "Bearer "+valid {
				w.WriteHeader(r.status)
				return
			}
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	database := storetest.Database(t)
	s, err := store.Open(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	r.conn, err = pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close(context.Background()) })
	_, err = r.conn.Exec(t.Context(), `INSERT INTO organisations (id, name) VALUES ($1, $1), ('org_2', 'org_2')`, org)
	require.NoError(t, err)
	v, err := vault.Open(filepath.Join(t.TempDir(), "keyset.json"))
	require.NoError(t, err)
	r.guarded = func(guard dialguard.Guard) *credential.Credentials {
		return credential.New(credential.Config{Guard: guard, Store: s, Vault: v, Redact: r.redact, Recorder: event.NewRecorder(event.RecorderConfig{
			Store: s, Redact: r.redact, Notify: func(string, string) {},
		})})
	}
	r.Credentials = r.guarded(loopback)
	return r
}

func (r *rig) connect(t *testing.T, name, key string) error {
	t.Helper()
	_, err := r.Connect(t.Context(), credential.Connection{
		OrgID: org, Provider: name, BaseURL: r.url, Key: config.Secret(key), By: event.Actor{Kind: event.User, ID: "ann"},
	})
	return err
}

// A key is tested when it is connected, is sealed, serves its own
// organisation only, and is gone when it is disconnected.
func TestAKeyFromConnectToDisconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Access(t.Context(), org, "anthropic")
	require.Equal(t, fault.NoCredentials, fault.As(err).Code)
	require.ErrorContains(t, err, "deckhand provider connect anthropic")
	require.NoError(t, r.connect(t, "anthropic", valid))
	a, err := r.Access(t.Context(), org, "anthropic")
	require.NoError(t, err)
	require.Equal(t, valid, a.Key.Reveal())
	require.NotContains(t, r.redact.Org(org).String("it is "+valid), "canary")
	require.True(t, r.redact.Org(org).Knows([]byte(valid)))
	require.False(t, r.redact.Org("org_2").Knows([]byte(valid)), "it is nothing to another organisation")
	_, err = r.Access(t.Context(), "org_2", "anthropic")
	require.Equal(t, fault.NoCredentials, fault.As(err).Code)

	var row []byte
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT (SELECT json_agg(c)::text FROM credentials c)::bytea || (SELECT json_agg(a)::text FROM audit_entries a)::bytea").Scan(&row))
	require.False(t, bytes.Contains(row, []byte("canary")), "no table holds it")
	require.True(t, bytes.Contains(row, []byte("provider.connected")))

	// A row that was changed to another address does not send the key there.
	_, err = r.conn.Exec(t.Context(), "UPDATE credentials SET base_url = 'http://elsewhere.example'")
	require.NoError(t, err)
	_, err = r.Access(t.Context(), org, "anthropic")
	require.ErrorContains(t, err, "cannot be opened")

	require.NoError(t, r.connect(t, "anthropic", valid))
	a, err = r.Access(t.Context(), org, "anthropic")
	require.NoError(t, err)
	require.NoError(t, r.Refuse(t.Context(), org, a))
	rows, _, err := r.List(t.Context(), org, "", 100)
	require.NoError(t, err)
	require.Equal(t, "abcd", rows[0].Credential.Hint)
	require.NotNil(t, rows[0].Credential.RefusedAt)
	require.NoError(t, r.Disconnect(t.Context(), org, "anthropic", event.Actor{Kind: event.User, ID: "ann"}))
	var n int
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT count(*) FROM credentials").Scan(&n))
	require.Zero(t, n)
	require.True(t, fault.Is(r.Disconnect(t.Context(), org, "anthropic", event.Actor{}), fault.NotFound))
}

// A key of the wrong form never leaves; one that the provider refuses is
// not stored.
func TestKeysThatAreNotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		in   credential.Connection
		code fault.Code
		says string
	}{
		"an unknown provider":    {credential.Connection{Provider: "nobody", Key: valid}, "", "not one to connect to"},
		"the script":             {credential.Connection{Provider: "script", Key: valid}, "", "not one to connect to"},
		"no key":                 {credential.Connection{Provider: "anthropic", BaseURL: r.url}, "", "key is empty"},
		"a key of somebody else": {credential.Connection{Provider: "anthropic", Key: "sk-0123456789"}, "", "begin with sk-ant-"},
		"a key with a line end":  {credential.Connection{Provider: "anthropic", BaseURL: r.url, Key: valid + "\nX: y"}, "", "not a key"},
		"an address with a user": {credential.Connection{Provider: "vllm", BaseURL: "http://u:p@host/v1"}, "", "not a plain URL"},
		"a word":                 {credential.Connection{Provider: "openai", BaseURL: r.url, Key: "max_completion_tokens"}, "", "reads like words"},
		"no address":             {credential.Connection{Provider: "vllm"}, "", "base_url is empty"},
		"a file":                 {credential.Connection{Provider: "vllm", BaseURL: "file:///etc/passwd"}, "", "not a plain URL"},
		"a wrong key":            {credential.Connection{Provider: "openai", BaseURL: r.url, Key: "sk-wrong-0123456789"}, fault.CredentialInvalid, "refuses the key"},
		"nobody there":           {credential.Connection{Provider: "ollama", BaseURL: "http://127.0.0.1:1/v1"}, "", "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.OrgID = org
			_, err := r.Connect(t.Context(), c.in)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.code, fault.As(err).Code)
			require.NotContains(t, err.Error(), "0123456789")
			if key := c.in.Key.Reveal(); key != "" && key != valid {
				require.False(t, r.redact.Org(org).Knows([]byte(key)), "it is not stored, and so not masked")
			}
		})
	}
	r.status = http.StatusNotFound
	require.ErrorContains(t, r.connect(t, "gemini", valid), "404")
	r.status = http.StatusInternalServerError
	require.ErrorContains(t, r.connect(t, "gemini", valid), "did not test the key")
	rows, _, err := r.List(t.Context(), org, "", 100)
	require.NoError(t, err)
	require.Empty(t, rows)
}

func TestAnExpiredKeyIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	past := time.Now().Add(-time.Second)
	_, err := r.Connect(t.Context(), credential.Connection{OrgID: org, Provider: "openai", BaseURL: r.url, Key: valid, ExpiresAt: &past})
	require.NoError(t, err)
	_, err = r.Access(t.Context(), org, "openai")
	require.Equal(t, fault.CredentialInvalid, fault.As(err).Code)
}

// The hub connects for an organisation to public servers only, and sends a key nowhere
// else, whatever a server responds.
func TestAnOrganisationSaysNotWhereTheHubConnects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inner.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(inner.URL, "http://"))
	require.NoError(t, err)
	guarded := r.guarded(dialguard.Guard{Flag: "--provider-allow"})
	for _, host := range []string{"127.0.0.1", "localhost", "169.254.169.254", "[::ffff:10.0.0.1]", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.5"} {
		for _, scheme := range []string{"http", "https"} {
			address := scheme + "://" + host + ":" + port
			_, err := guarded.Connect(t.Context(), credential.Connection{OrgID: org, Provider: "vllm", BaseURL: address, Key: valid})
			require.ErrorContains(t, err, "is not a public address", address)
			require.ErrorContains(t, err, "--provider-allow")
			_, err = guarded.Connect(t.Context(), credential.Connection{OrgID: org, Provider: "gemini", Login: &credential.Login{
				ClientID: "c", TokenURL: address, Code: "code-0123456789", Verifier: "verifier-0123456789",
			}})
			require.ErrorContains(t, err, "token_url cannot be used", address)
		}
	}
	away := httptest.NewServer(http.RedirectHandler(inner.URL+"/latest/meta-data", http.StatusFound))
	t.Cleanup(away.Close)
	_, err = r.Connect(t.Context(), credential.Connection{OrgID: org, Provider: "vllm", BaseURL: away.URL, Key: valid})
	require.ErrorContains(t, err, "redirect")
	require.Zero(t, asked.Load(), "nothing was sent")
	require.NoError(t, r.connect(t, "anthropic", valid), "what an operator allows serves")
}
