package credential_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// appKey is the key of an app, also as GitHub issues it.
var appKey = func() func(t *testing.T) (*rsa.PrivateKey, string) {
	once := sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	return func(t *testing.T) (*rsa.PrivateKey, string) {
		t.Helper()
		key, err := once()
		require.NoError(t, err)
		return key, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	}
}()

// gitHub is an API that issues tokens as GitHub does: to whoever has the key of app 1234,
// which is installed for acme/web and acme/docs with contents: write.
type gitHub struct {
	server

	t   *testing.T
	key *rsa.PublicKey

	mu     sync.Mutex
	calls  []string
	bodies []map[string]any
	issued []string
	// answer replaces the response to a request for a token, if it reports so.
	answer func(w http.ResponseWriter) bool
}

func newGitHub(t *testing.T) *gitHub {
	t.Helper()
	key, _ := appKey(t)
	g := &gitHub{t: t, key: &key.PublicKey}
	g.server = serve(t, g.serve)
	return g
}

func (g *gitHub) serve(w http.ResponseWriter, req *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, req.Method+" "+req.URL.Path)
	say := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	token, found := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if found && slices.Contains(g.issued, token) && req.URL.Path == "/repos/acme/web/pulls" {
		say(http.StatusOK, map[string]any{"echo": token})
		return
	}
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	var claims jwt.Claims
	if err == nil {
		err = signed.Claims(g.key, &claims)
	}
	if err == nil {
		err = claims.ValidateWithLeeway(jwt.Expected{Issuer: "1234", Time: time.Now()}, 0)
	}
	if err != nil || claims.Expiry.Time().Sub(claims.IssuedAt.Time()) > 10*time.Minute {
		say(http.StatusUnauthorized, map[string]any{"message": "A JSON web token could not be decoded"})
		return
	}
	switch req.Method + " " + req.URL.Path {
	case "GET /repos/acme/web/installation", "GET /repos/acme/docs/installation":
		say(http.StatusOK, map[string]any{"id": 77})
	case "POST /app/installations/77/access_tokens":
		if g.answer != nil && g.answer(w) {
			return
		}
		var body struct {
			Repositories []string
			Permissions  map[string]string
		}
		raw, _ := io.ReadAll(req.Body)
		if json.Unmarshal(raw, &body) != nil {
			say(http.StatusBadRequest, nil)
			return
		}
		for _, name := range body.Repositories {
			if name != "web" && name != "docs" {
				say(http.StatusUnprocessableEntity, map[string]any{"message": "There is at least one repository that does not exist or is not accessible to the parent installation."})
				return
			}
		}
		for name, level := range body.Permissions {
			if name != "contents" && name != "pull_requests" || level == "admin" {
				say(http.StatusUnprocessableEntity, map[string]any{"message": "The permissions requested are not granted to this installation."})
				return
			}
		}
		var all map[string]any
		_ = json.Unmarshal(raw, &all)
		g.bodies = append(g.bodies, all)
		g.issued = append(g.issued, fmt.Sprintf("ghs_canary%030d", len(g.issued)))
		say(http.StatusCreated, map[string]any{"token": g.issued[len(g.issued)-1], "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	default:
		say(http.StatusNotFound, map[string]any{"message": "Not Found"})
	}
}

// tokens returns how many tokens were issued.
func (g *gitHub) tokens() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.issued)
}

// app creates the credential of the app.
func (g *gitHub) app(r *rig, change func(*deckhandv1.CreateCredentialRequest)) {
	_, key := appKey(g.t)
	in := g.bound("github", credential.GitHubApp, &deckhandv1.CredentialValue{PrivateKey: key})
	in.Settings = &deckhandv1.CredentialSettings{
		BaseUrl: g.URL + "/", AppId: "1234", Repositories: []string{"acme/*"}, Permissions: map[string]string{"contents": "write", "pull_requests": "write"},
	}
	if change != nil {
		change(in)
	}
	r.create(in)
}

// A node gets a token of the app's installation for the repositories and permissions that
// the persona wants, once for all who ask.
func TestATokenOfAGitHubAppIsNarrow(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, nil)
	r.persona.Credentials = []persona.Credential{{Name: "github", Repositories: []string{"acme/web"}, Permissions: map[string]string{"contents": "read"}}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := r.Token(t.Context(), org, node, jail, "github", "")
			assert.NoError(t, err)
			assert.Equal(t, "Bearer "+g.issued[0], got.Headers["Authorization"])
		})
	}
	wg.Wait()
	require.Equal(t, 1, g.tokens())
	require.Equal(t, []string{"GET /repos/acme/web/installation", "POST /app/installations/77/access_tokens"}, g.calls)
	require.Equal(t, map[string]any{"repositories": []any{"web"}, "permissions": map[string]any{"contents": "read"}}, g.bodies[0])
	got, err := r.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err)
	basic, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(got.GitHeaders["Authorization"], "Basic "))
	require.NoError(t, err)
	require.Equal(t, "x-access-token:"+g.issued[0], string(basic))
	require.Contains(t, got.Secrets, g.issued[0])
	require.WithinDuration(t, time.Now().Add(time.Hour-2*time.Minute), got.ExpiresAt, 10*time.Second)
	require.NotContains(t, r.redact.Org(org).String(g.issued[0]), "canary")

	// Another persona's wish is another token.
	r.persona.Credentials[0].Repositories = []string{"acme/docs", "acme/web"}
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err)
	require.Equal(t, []any{"docs", "web"}, g.bodies[1]["repositories"])

	for says, want := range map[string]persona.Credential{
		"does not allow contents: admin":                  {Permissions: map[string]string{"contents": "admin"}},
		"does not allow workflows: write":                 {Permissions: map[string]string{"workflows": "write"}},
		"does not allow repository other/web":             {Repositories: []string{"other/web"}},
		"GitHub issues no token for acme/docs, acme/nope": {Repositories: []string{"acme/docs", "acme/nope"}},
		"is not installed for acme/absent":                {Repositories: []string{"acme/absent"}},
		"installation of GitHub App 1234 is not":          {},
	} {
		want.Name = "github"
		r.persona.Credentials = []persona.Credential{want}
		_, err = r.Token(t.Context(), org, node, jail, "github", "")
		e := fault.As(err)
		require.NotNil(t, e, says)
		require.Contains(t, e.Message, says)
	}
	require.Equal(t, 2, g.tokens())
	r.nowhere(g.issued...)
}

// After a rotation no older token is given out, and after a deletion none.
func TestATokenEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) {
		c.Settings.InstallationId, c.Settings.Repositories = 77, []string{"acme/web"}
	})
	first, err := r.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err)
	require.Equal(t, []string{"POST /app/installations/77/access_tokens"}, g.calls)
	_, key := appKey(t)
	_, err = r.Rotate(t.Context(), org, &deckhandv1.RotateCredentialRequest{Name: "github", Value: &deckhandv1.CredentialValue{PrivateKey: key}}, admin)
	require.NoError(t, err)
	second, err := r.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err)
	require.NotEqual(t, first.Headers, second.Headers)
	require.NoError(t, r.Delete(t.Context(), org, "github", admin))
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.NotFound, "there is no credential github: it was deleted")
}

// A credential that is deleted while its token is being issued gives none.
func TestATokenThatIsIssuedTooLateIsNotGivenOut(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) {
		c.Settings.InstallationId, c.Settings.Repositories = 77, []string{"acme/web"}
	})
	g.answer = func(http.ResponseWriter) bool {
		assert.NoError(t, r.Delete(t.Context(), org, "github", admin))
		return false
	}
	_, err := r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.NotFound, "there is no credential github")
}

// What a server says is an error of a kind, and is not asked for again at once.
func TestErrorsOfAServerAreTyped(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) {
		c.Settings.InstallationId, c.Settings.Repositories = 77, []string{"acme/web"}
	})
	g.answer = func(w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	_, err := r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Exhausted, "GitHub limits requests")
	require.Equal(t, 2*time.Minute, fault.As(err).RetryAfter)
	before := len(g.calls)
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Exhausted, "GitHub limits requests")
	require.Len(t, g.calls, before, "it waits for as long as the server says")

	_, key := appKey(t)
	rotate := func() {
		_, err := r.Rotate(t.Context(), org, &deckhandv1.RotateCredentialRequest{Name: "github", Value: &deckhandv1.CredentialValue{PrivateKey: key}}, admin)
		require.NoError(t, err)
	}
	rotate()
	g.answer = func(w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>\x00\x1b[31m"+strings.Repeat("x", 5000))
		return true
	}
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Unavailable, "GitHub issued no token (HTTP 502)")
	require.Less(t, len(fault.As(err).Message), 600)
	require.NotContains(t, fault.As(err).Message, "\x1b")
	g.answer = nil
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err, "it is asked again")

	rotate()
	g.key = &func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k }().PublicKey
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Denied, "GitHub refuses the key of GitHub App 1234")
}

// The hub reaches servers only where its operator allows, and those with a certificate that
// is known.
func TestATokenIsFetchedOverTLSThatIsVerifiedAndWhereAllowed(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) {
		c.Settings.InstallationId, c.Settings.Repositories = 77, []string{"acme/web"}
	})
	_, err := r.guarded(dialguard.Guard{Flag: "--provider-allow"}).Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Denied, "127.0.0.1 is not a public address")
	r.exec("UPDATE egress_credentials SET roots = ''")
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Unavailable, "signed by an unknown authority")
	require.Empty(t, g.calls)
	host, port := dead(t)
	r.exec(fmt.Sprintf(`UPDATE egress_credentials SET version = 'other', settings = settings || '{"base_url": "https://%s:%d"}'`, host, port))
	_, err = r.Token(t.Context(), org, node, jail, "github", "")
	refused(t, err, fault.Unavailable, "cannot be reached")
}

// An OAuth 2.0 client gets a token with its scopes and audience.
func TestATokenOfAnOAuth2Client(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	issued, life := 0, 3600
	login := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		id, password, _ := req.BasicAuth()
		if id != "reporter" || password != secret || req.FormValue("grant_type") != "client_credentials" || req.FormValue("scope") != "read write" || req.FormValue("audience") != "https://api.example.com" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error": "invalid_client", "error_description": "who is `+password+`?"}`)
			return
		}
		issued++
		_, _ = fmt.Fprintf(w, `{"access_token": "at-canary-%d-8fk2", "token_type": "bearer", "expires_in": %d}`, issued, life)
	})
	in := bearer("reports")
	in.Kind, in.Settings = string(credential.OAuth2Client), &deckhandv1.CredentialSettings{
		TokenUrl: login.URL + "/token", ClientId: "reporter", Scopes: []string{"read", "write"}, Audience: "https://api.example.com",
	}
	in.Value, in.Roots = &deckhandv1.CredentialValue{ClientSecret: secret}, login.roots
	r.create(in)
	for range 3 {
		got, err := r.Token(t.Context(), org, node, jail, "reports", "")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"Authorization": "Bearer at-canary-1-8fk2"}, got.Headers)
		require.Nil(t, got.GitHeaders)
	}
	bindings, err := r.Bindings(t.Context(), org, "coder", r.persona.Credentials)
	require.NoError(t, err)
	require.False(t, bindings[0].GetHeld())

	const wrong = "tok-wrong-2hF6sKd8p"
	_, err = r.Rotate(t.Context(), org, &deckhandv1.RotateCredentialRequest{Name: "reports", Value: &deckhandv1.CredentialValue{ClientSecret: wrong}}, admin)
	require.NoError(t, err)
	_, err = r.Token(t.Context(), org, node, jail, "reports", "")
	refused(t, err, fault.Denied, "issues no token to client reporter (HTTP 401): invalid_client")
	require.NotContains(t, err.Error(), wrong, "a server that repeats the secret is masked")
	result, err := r.Test(t.Context(), org, "reports", "", admin)
	require.NoError(t, err)
	require.False(t, result.GetOk())
	require.NotContains(t, result.String(), wrong)
	r.nowhere(secret, wrong, "at-canary-1-8fk2")
}

// Only a task that runs in the jail, whose persona lists the credential and whose agent may
// use it, gets something; a node that asks for others is told why.
func TestANodeGetsNothingForAJailThatMayNotHaveIt(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) {
		c.Settings.InstallationId, c.Settings.Repositories = 77, []string{"acme/web"}
	})
	r.create(bearer("api"))
	both := func(orgID, on, in string, kind fault.Kind, says string) {
		t.Helper()
		_, err := r.Token(t.Context(), orgID, on, in, "github", "")
		refused(t, err, kind, says)
		_, err = r.Insert(t.Context(), orgID, on, in, "api", request(t, http.MethodGet, "https://api.example.com/", ""))
		refused(t, err, kind, says)
	}
	both(org, node, "jail_2", fault.Denied, "no task is running in jail jail_2")
	both(org, "node_9", jail, fault.Denied, "no task is running in jail jail_1 on the node that asks")
	both("org_2", node, jail, fault.Denied, "no task is running in jail jail_1")
	both("org_2", "node_9", "jail_9", fault.NotFound, "there is no credential")
	for _, state := range []string{"queued", "paused", "escalated"} {
		r.exec("UPDATE tasks SET state = 'waiting' WHERE id = 'task_1'")
		r.exec("ALTER TABLE tasks DISABLE TRIGGER USER")
		r.exec("UPDATE tasks SET state = $1 WHERE id = 'task_1'", state)
		both(org, node, jail, fault.Denied, "no task is running")
	}
	r.exec("UPDATE tasks SET state = 'waiting' WHERE id = 'task_1'")
	listed := r.persona.Credentials
	r.persona.Credentials = nil
	both(org, node, jail, fault.Denied, "does not list credential")
	r.persona.Credentials = listed
	r.exec("UPDATE egress_credentials SET agents = '{other}'")
	both(org, node, jail, fault.Denied, "agent coder may not use credential")
	r.exec("UPDATE egress_credentials SET agents = '{*}', expires_at = now() - interval '1 second'")
	both(org, node, jail, fault.Precondition, "has expired")
	r.exec("UPDATE egress_credentials SET expires_at = NULL")
	_, err := r.Token(t.Context(), org, node, jail, "github", "")
	require.NoError(t, err)
	_, err = r.Token(t.Context(), org, node, jail, "api", "")
	refused(t, err, fault.Denied, "does not leave the hub")
	_, err = r.Insert(t.Context(), org, node, jail, "github", request(t, http.MethodGet, g.URL, ""))
	refused(t, err, fault.Invalid, "is inserted by the node")
	require.Equal(t, 1, g.tokens())
}

// A server that returns another refresh token with each access token, and withdraws the consent
// if one is used twice, can be used by several hubs at once: each uses the latest one. It is
// kept over a change of what the credential is for, and ends with a new value.
func TestARefreshTokenThatChangesWithEachUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const first, second = "1//refresh-canary-first-7Kq2", "1//refresh-canary-second-9Zx4"
	var mu sync.Mutex
	valid, issued, withdrawn := first, 0, false
	all := []string{first, second}
	login := serve(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if withdrawn = withdrawn || req.FormValue("refresh_token") != valid; withdrawn {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error": "invalid_grant", "error_description": "used before: `+req.FormValue("refresh_token")+`"}`)
			return
		}
		issued++
		valid = fmt.Sprintf("1//refresh-canary-%d-3Vb8", issued)
		all = append(all, valid)
		_, _ = fmt.Fprintf(w, `{"access_token": "at-canary-%d-8fk2", "token_type": "bearer", "expires_in": 3600, "refresh_token": %q}`, issued, valid)
	})
	in := bearer("office")
	in.Kind, in.Settings = string(credential.OAuth2Client), &deckhandv1.CredentialSettings{TokenUrl: login.URL + "/token", ClientId: "reporter"}
	in.Value, in.Roots = &deckhandv1.CredentialValue{ClientSecret: secret, RefreshToken: first}, login.roots
	r.create(in)
	other := r.guarded(loopback)
	var using sync.WaitGroup
	for _, hub := range []*credential.Credentials{r.Credentials, other} {
		for range 2 {
			using.Go(func() {
				for range 4 {
					result, err := hub.Test(t.Context(), org, "office", "", admin) // keeps no token
					assert.NoError(t, err)
					assert.True(t, result.GetOk(), result.GetProblem())
				}
			})
		}
		using.Go(func() {
			_, err := hub.Token(t.Context(), org, node, jail, "office", "")
			assert.NoError(t, err)
		})
	}
	using.Wait()
	require.Equal(t, 18, issued)

	// A change without a value keeps the latest one, also for a hub that starts then.
	now, err := r.Get(t.Context(), org, "office")
	require.NoError(t, err)
	_, err = r.Update(t.Context(), org, &deckhandv1.UpdateCredentialRequest{
		Name: "office", Hosts: now.GetHosts(), Agents: []string{"coder", "tester"}, Settings: now.GetSettings(), Roots: now.GetRoots(),
	}, admin)
	require.NoError(t, err)
	result, err := r.guarded(loopback).Test(t.Context(), org, "office", "", admin)
	require.NoError(t, err)
	require.True(t, result.GetOk(), result.GetProblem())

	// It is masked on a hub that has not used it, and found by a rotation of the vault's keys.
	rows, err := r.store.SealedWithin(t.Context(), time.Hour)
	require.NoError(t, err)
	var known []string
	for _, row := range rows {
		values, err := r.Values(row)
		require.NoError(t, err)
		known = append(known, values...)
	}
	require.Contains(t, known, all[len(all)-1])
	r.nowhere(append(all, secret)...)

	// A new value has a refresh token of its own. The error says what the server says, masked.
	mu.Lock()
	valid = second
	mu.Unlock()
	result, err = r.Test(t.Context(), org, "office", "", admin)
	require.NoError(t, err)
	require.Contains(t, result.GetProblem(), "invalid_grant used before: \u27e6secret\u27e7")
	mu.Lock()
	withdrawn = false
	mu.Unlock()
	_, err = r.Rotate(t.Context(), org, &deckhandv1.RotateCredentialRequest{Name: "office", Value: &deckhandv1.CredentialValue{ClientSecret: secret, RefreshToken: second}}, admin)
	require.NoError(t, err)
	_, err = other.Token(t.Context(), org, node, jail, "office", "")
	require.NoError(t, err)
}
