package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	loginClient, loginSecret = "client-1", "canary-of-the-client-0123456789"
	loginRedirect            = "http://127.0.0.1:7/callback"
)

// google is an authorisation server, and the model API that takes its tokens. It
// issues a refresh token for one use each.
type google struct {
	*httptest.Server

	mu sync.Mutex
	// codes maps each code to its challenge.
	codes map[string]string
	n     int
	// refresh and access are the tokens that are valid.
	refresh, access string
	renewed, reused int
	// broken has it answer an error to whoever asks for a token.
	broken int
}

func newGoogle(t *testing.T) *google {
	g := &google{codes: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, req *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		q := req.URL.Query()
		if q.Get("client_id") != loginClient || q.Get("redirect_uri") != loginRedirect || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
			http.Error(w, "not a login", http.StatusBadRequest)
			return
		}
		g.n++
		code := fmt.Sprintf("canary-of-a-code-%d", g.n)
		g.codes[code] = q.Get("code_challenge")
		http.Redirect(w, req, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, req *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		refuse := func(status int, code string) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "of " + req.FormValue("refresh_token")})
		}
		switch {
		case g.broken != 0:
			refuse(g.broken, "temporarily_unavailable")
			return
		case req.FormValue("client_id") != loginClient || req.FormValue("client_secret") != loginSecret:
			refuse(http.StatusUnauthorized, "invalid_client")
			return
		case req.FormValue("grant_type") == "authorization_code":
			code := req.FormValue("code")
			challenge, ok := g.codes[code]
			delete(g.codes, code)
			if !ok || challenge != oauth2.S256ChallengeFromVerifier(req.FormValue("code_verifier")) || req.FormValue("redirect_uri") != loginRedirect {
				refuse(http.StatusBadRequest, "invalid_grant")
				return
			}
		case req.FormValue("grant_type") != "refresh_token" || g.refresh == "" || req.FormValue("refresh_token") != g.refresh:
			g.reused++
			refuse(http.StatusBadRequest, "invalid_grant")
			return
		default:
			g.renewed++
		}
		g.n++
		g.access, g.refresh = fmt.Sprintf("canary-of-an-access-token-%d", g.n), fmt.Sprintf("canary-of-a-refresh-token-%d", g.n)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": g.access, "refresh_token": g.refresh, "token_type": "Bearer", "expires_in": 3600})
	})
	mux.HandleFunc("/v1beta/", func(w http.ResponseWriter, req *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if req.Header.Get("Authorization") != "Bearer "+g.access || req.Header.Get("X-Goog-Api-Key") != "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"candidates":[],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1}}`))
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func (g *google) count(of *int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *of
}

// login goes as far as the code, as a browser does.
func (g *google) login(t *testing.T) *deckhandv1.ProviderLogin {
	t.Helper()
	verifier := oauth2.GenerateVerifier()
	conf := &oauth2.Config{ClientID: loginClient, RedirectURL: loginRedirect, Endpoint: oauth2.Endpoint{AuthURL: g.URL + "/auth"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, conf.AuthCodeURL("state-1", oauth2.S256ChallengeOption(verifier)), nil)
	require.NoError(t, err)
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	to, err := res.Location()
	require.NoError(t, err)
	return &deckhandv1.ProviderLogin{
		ClientId: loginClient, ClientSecret: loginSecret, TokenUrl: g.URL + "/token", Code: to.Query().Get("code"),
		CodeVerifier: verifier, RedirectUrl: loginRedirect,
	}
}

// askGemini returns the status and code of one call.
func askGemini(ctx context.Context, hubURL string, lease *deckhandv1.Lease) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hubURL+"/relay/gemini/v1beta/models/gemini-2.5-flash:generateContent",
		strings.NewReader(`{"contents":[],"generationConfig":{"maxOutputTokens":5}}`))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Goog-Api-Key", fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get(fault.CodeHeader) + res.Header.Get(fault.FixHeader), err
}

// A login by OAuth with PKCE, from its code to calls with its token;
// ten calls at once over two hubs renew it once, before its end; what a renewal returned is
// stored though the database fails meanwhile; a renewal that is refused says to connect again; disconnecting wipes it.
func TestALoginIsRenewedByOneOfTwoHubs(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	r, first, second := newPair(t, nodetest.Config{})
	put := func(login *deckhandv1.ProviderLogin) (*deckhandv1.Provider, error) {
		res, err := r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{Name: "gemini", BaseUrl: g.URL, Login: login})
		if err != nil {
			return nil, err
		}
		return res.GetProvider(), nil
	}
	wrong := g.login(t)
	wrong.CodeVerifier = oauth2.GenerateVerifier()
	_, err := put(wrong)
	require.ErrorContains(t, err, "gemini refuses the login (invalid_grant)")
	require.Equal(t, fault.CredentialInvalid, fault.As(err).Code)
	elsewhere := g.login(t)
	elsewhere.TokenUrl = "http://192.0.2.1/token"
	_, err = put(elsewhere)
	require.ErrorContains(t, err, "token_url")
	connected, err := put(g.login(t))
	require.NoError(t, err)
	require.True(t, connected.GetLogin())
	require.NotNil(t, connected.GetExpiresAt())
	require.NotContains(t, connected.String(), "canary")
	require.Equal(t, "false", r.sql("SELECT (position('canary'::bytea IN sealed) > 0)::text FROM credentials"))

	r.apply("gem", strings.NewReplacer("provider: anthropic", "provider: gemini", "claude-sonnet-4-5", "gemini-2.5-flash").Replace(anthropicPersona("gem")))
	lease := r.begin(r.submit("gem").GetId(), 1)
	ask := func() (int, string) {
		status, says, err := askGemini(t.Context(), second.URL(), lease)
		require.NoError(t, err)
		return status, says
	}
	status, says := ask()
	require.Equal(t, http.StatusOK, status, says)
	require.Zero(t, g.count(&g.renewed))

	// The clock moves on: what was issued for an hour ends in four minutes.
	later := func(minutes int) {
		r.exec(fmt.Sprintf(`UPDATE credentials SET expires_at = expires_at - interval '%[1]d minutes',
			connected_at = connected_at - interval '%[1]d minutes', refreshed_at = refreshed_at - interval '%[1]d minutes'`, minutes))
	}
	later(56)
	g.mu.Lock()
	g.broken = http.StatusServiceUnavailable
	g.mu.Unlock()
	status, says = ask()
	require.Equal(t, http.StatusOK, status, "the token serves until its end: %s", says)
	g.mu.Lock()
	g.broken = 0
	g.mu.Unlock()
	var callers sync.WaitGroup
	for i := range 10 {
		at := []*hubtest.Hub{first, second}[i%2].URL()
		callers.Go(func() {
			status, says, err := askGemini(t.Context(), at, lease)
			assert.NoError(t, err)
			assert.Equal(t, http.StatusOK, status, says)
		})
	}
	callers.Wait()
	require.Equal(t, 1, g.count(&g.renewed))
	later(56)
	r.exec(`CREATE SEQUENCE failures`)
	r.exec(`CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF nextval('failures') < 3 THEN RAISE EXCEPTION 'no space left'; END IF; RETURN NEW; END $$`)
	r.exec(`CREATE TRIGGER fail_twice BEFORE UPDATE OF sealed ON credentials FOR EACH ROW EXECUTE FUNCTION fail_twice()`)
	status, says = ask()
	require.Equal(t, http.StatusOK, status, "the refresh token that came with the renewal is the one to use: %s", says)
	require.Equal(t, "3", r.sql("SELECT last_value::text FROM failures"), "what the server has issued is stored, though the database failed twice")
	require.Equal(t, 2, g.count(&g.renewed))
	require.Zero(t, g.count(&g.reused))

	g.mu.Lock()
	g.refresh = "" // the user takes it back
	g.mu.Unlock()
	later(56)
	for range 2 {
		status, says = ask()
		require.NotEqual(t, http.StatusOK, status)
		require.Contains(t, says, string(fault.CredentialInvalid))
		require.Contains(t, says, "deckhand provider connect gemini --oauth")
	}
	require.Equal(t, 1, g.count(&g.reused), "it is not asked again")
	require.Len(t, r.audited("provider.refused"), 1)
	list, err := r.user.Providers.ListProviders(t.Context(), &deckhandv1.ListProvidersRequest{})
	require.NoError(t, err)
	require.NotNil(t, list.GetProviders()[0].GetRefusedAt())
	_, err = r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "gem", Goal: "go on"})
	require.ErrorContains(t, err, "refuses the login")

	_, err = put(g.login(t))
	require.NoError(t, err)
	status, says = ask()
	require.Equal(t, http.StatusOK, status, says)
	_, err = r.user.Providers.DisconnectProvider(t.Context(), &deckhandv1.DisconnectProviderRequest{Name: "gemini"})
	require.NoError(t, err)
	require.Equal(t, "0", r.sql("SELECT count(*)::text FROM credentials"))
	status, says = ask()
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, says, string(fault.NoCredentials))
}
