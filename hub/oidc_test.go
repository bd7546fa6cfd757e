package hub_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-jose/go-jose/v4"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// idp is an OpenID Connect provider on loopback: discovery, keys, the
// authorisation endpoint, which lets everybody in as whoever the test says, and
// the token endpoint, which checks the client, the code and PKCE.
type idp struct {
	*httptest.Server

	t   *testing.T
	key *rsa.PrivateKey

	mu    sync.Mutex
	codes map[string]url.Values // what each code was asked for with
	// person are the claims besides those of the protocol.
	person map[string]any
	// lie changes claims, and sign, if set, signs them.
	lie  func(claims map[string]any)
	sign func(payload []byte) string
}

const (
	idpClient = "deckhand"
	idpSecret = "a secret of the client"
)

func newIDP(t *testing.T) *idp {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &idp{t: t, key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("client_id") != idpClient || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" ||
			!strings.Contains(q.Get("scope"), "openid") {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		code := rand.Text()
		p.mu.Lock()
		p.codes[code] = q
		p.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		secret, _ = url.QueryUnescape(secret)
		p.mu.Lock()
		defer p.mu.Unlock()
		asked := p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if id != idpClient || secret != idpSecret || asked == nil || asked.Get("redirect_uri") != r.FormValue("redirect_uri") ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		claims := map[string]any{
			"iss": p.URL, "aud": idpClient, "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		}
		maps.Copy(claims, p.person)
		if p.lie != nil {
			p.lie(claims)
		}
		payload, err := json.Marshal(claims)
		if err != nil {
			t.Error(err)
		}
		sign := p.sign
		if sign == nil {
			sign = func(payload []byte) string { return p.signed(p.key, payload) }
		}
		answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": sign(payload)})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *idp) signed(key *rsa.PrivateKey, payload []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	return token
}

// behindFront starts a hub that people log in to at a provider. Browsers find it
// through a proxy, whose address is known beforehand.
func behindFront(t *testing.T, p *idp) (h *hubtest.Hub, front string) {
	t.Helper()
	cfg := hubtest.Config(t)
	cfg.OIDCIssuer, cfg.OIDCClientID, cfg.OIDCClientSecret = p.URL, idpClient, idpSecret
	cfg.OIDCRoles = "ops=advanced, readers=viewer, root=admin"
	hubs := make(chan *url.URL, 1)
	target := sync.OnceValue(func() *url.URL { return <-hubs })
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target()) }})
	t.Cleanup(server.Close)
	cfg.PublicURL = server.URL
	h = hubtest.Start(t, cfg)
	api, err := url.Parse(h.URL())
	require.NoError(t, err)
	hubs <- api
	return h, server.URL
}

// People log in at the organisation's provider, with the role that their
// groups have, and what the provider has not signed for this login lets nobody
// in.
func TestPeopleLogInByOIDC(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	h, front := behindFront(t, p)

	type outcome struct {
		status int
		text   string
		cookie string
		to     string
	}
	walk := func(change func(req *http.Request), next ...string) outcome {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		var out outcome
		client := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			if change != nil {
				change(req)
			}
			if strings.HasSuffix(front, req.URL.Host) && (req.URL.Path == "/" || req.URL.Path == "/oauth/authorize") {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		res, err := client.Get(front + "/oidc/login?" + url.Values{"next": next}.Encode())
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		out.status, out.text, out.to = res.StatusCode, string(text), res.Header.Get("Location")
		for _, c := range res.Cookies() {
			if c.Name == "deckhand_session" {
				require.True(t, c.HttpOnly)
				require.Equal(t, http.SameSiteStrictMode, c.SameSite)
				out.cookie = c.Name + "=" + c.Value
			}
		}
		return out
	}
	enters := func(role string) *deckhandv1.Session {
		t.Helper()
		out := walk(nil)
		require.Equal(t, http.StatusSeeOther, out.status, out.text)
		who, err := whoAmI(t, browser(t, h, out.cookie))
		require.NoError(t, err)
		require.Equal(t, role, who.GetRole())
		require.Equal(t, "oidc", who.GetMethod())
		return who
	}
	stays := func(why string, change func(*http.Request)) {
		t.Helper()
		out := walk(change)
		require.Equal(t, http.StatusForbidden, out.status, out.text)
		require.Contains(t, out.text, why)
		require.Empty(t, out.cookie)
	}

	p.person = map[string]any{"sub": "s1", "preferred_username": "carol", "groups": []string{"readers", "ops", "others"}}
	carol := enters("advanced")
	require.Equal(t, "carol", carol.GetUserName())
	// It returns to a page on which a program is allowed, and to no other.
	for next, want := range map[string]string{
		"/oauth/authorize?client_id=x": "/oauth/authorize?client_id=x", "//evil.example/oauth/": "/", "/oauth/../fleet": "/", "https://evil.example/oauth/": "/", "/fleet": "/",
	} {
		out := walk(nil, next)
		require.Equal(t, want, out.to, next)
	}
	p.person["preferred_username"], p.person["groups"] = "caroline", "readers"
	require.Equal(t, carol.GetUserId(), enters("viewer").GetUserId(), "the subject counts, and the groups of now")
	p.person["groups"] = []string{"others"}
	stays("none of your groups", nil)

	// A name that is taken is not taken over, whoever claims it.
	p.person = map[string]any{"sub": "s2", "preferred_username": "admin", "groups": []string{"ops"}}
	stays("not of the identity provider", nil)
	p.person["preferred_username"] = "a b\n"
	stays("no name", nil)
	p.person = map[string]any{"sub": "s2", "email": "dora@example.com", "groups": []string{"ops"}}
	stays("no name", nil)
	p.person["email_verified"] = true
	require.Equal(t, "dora@example.com", enters("advanced").GetUserName())

	do(t, h.Client(t, h.AdminToken).Users.UpdateUser, &deckhandv1.UpdateUserRequest{UserId: "dora@example.com", Disabled: new(true)})
	stays("disabled", nil)

	// Whom the provider has not vouched for in time has nothing that works, until
	// they log in there again.
	p.person = map[string]any{"sub": "s3", "preferred_username": "erin", "groups": []string{"ops"}}
	out := walk(nil)
	require.Equal(t, http.StatusSeeOther, out.status, out.text)
	erins := browser(t, h, out.cookie)
	token := h.Client(t, do(t, erins.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "ci"}).GetSecret())
	refused := func(who string, client *sdk.Client) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := client.Agents.ListAgents(t.Context(), &deckhandv1.ListAgentsRequest{})
			return connect.CodeOf(err) == connect.CodeUnauthenticated
		}, time.Minute, 50*time.Millisecond, who)
	}
	do(t, token.Agents.ListAgents, &deckhandv1.ListAgentsRequest{})
	vouched := func(ago string) {
		conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
		require.NoError(t, err)
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), "UPDATE users SET vouched_at = now() - $1::interval WHERE name = 'erin'", ago)
		require.NoError(t, err)
	}
	vouched("31 days")
	refused("her token", token)
	refused("her session", erins)
	enters("advanced")
	do(t, token.Agents.ListAgents, &deckhandv1.ListAgentsRequest{})
	vouched("2 hours")
	admin := h.Client(t, h.AdminToken)
	limits := do(t, admin.Tokens.SetTokenLimits, &deckhandv1.SetTokenLimitsRequest{Limits: &deckhandv1.TokenLimits{LoginWithin: durationpb.New(time.Hour)}})
	require.Equal(t, time.Hour, limits.GetLimits().GetLoginWithin().AsDuration())
	refused("her token, as the organisation has it", token)
	do(t, admin.Agents.ListAgents, &deckhandv1.ListAgentsRequest{}) // who is not of the provider
	enters("advanced")
	do(t, token.Agents.ListAgents, &deckhandv1.ListAgentsRequest{})

	// What is not signed, or not for this login, lets nobody in.
	p.person = map[string]any{"sub": "s1", "preferred_username": "carol", "groups": []string{"root"}}
	for what, lie := range map[string]func(map[string]any){
		"another nonce":  func(c map[string]any) { c["nonce"] = "x" },
		"another client": func(c map[string]any) { c["aud"] = "someone" },
		"another issuer": func(c map[string]any) { c["iss"] = "https://evil.example" },
		"too old":        func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
	} {
		p.lie = lie
		out := walk(nil)
		require.Equal(t, http.StatusForbidden, out.status, what)
		require.Empty(t, out.cookie, what)
	}
	p.lie = nil
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p.sign = func(payload []byte) string { return p.signed(strange, payload) }
	stays("cannot be believed", nil)
	p.sign = func(payload []byte) string {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "."
	}
	stays("cannot be believed", nil)
	p.sign = nil
	at := func(path string, change func(q url.Values)) func(*http.Request) {
		return func(req *http.Request) {
			if req.URL.Path == path {
				q := req.URL.Query()
				change(q)
				req.URL.RawQuery = q.Encode()
			}
		}
	}
	stays("has not begun it", at("/oidc/callback", func(q url.Values) { q.Set("state", "x") }))
	stays("does not know the code", at("/oidc/callback", func(q url.Values) { q.Set("code", "x") }))
	stays("does not know the code", at("/authorize", func(q url.Values) { q.Set("code_challenge", "x") }))
	stays("has not let you in", at("/oidc/callback", func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }))
	// Somebody else's code in this browser: it has begun no login.
	res, err := http.Get(h.URL() + "/oidc/callback?code=x&state=")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	enters("admin")

	entries := do(t, h.Client(t, h.AdminToken).Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{ObjectId: carol.GetUserId(), PageSize: 50}).GetEntries()
	require.Len(t, entries, 3, "made, viewer, admin")

	p.Close()
	_, err = whoAmI(t, h.Client(t, h.AdminToken))
	require.NoError(t, err, "who does not need the provider goes on")
}

// A login that ends at the provider ends the sessions here that came from it, and no
// others, at once. Only what the provider has signed as a logout of this client counts.
func TestALogoutAtTheProviderEndsSessions(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	h, front := behindFront(t, p)
	enters := func(subject, sid string) *sdk.Client {
		t.Helper()
		p.person = map[string]any{"sub": subject, "preferred_username": "user-" + subject, "groups": []string{"ops"}}
		if sid != "" {
			p.person["sid"] = sid
		}
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		client := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			if strings.HasSuffix(front, req.URL.Host) && req.URL.Path == "/" {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		res, err := client.Get(front + "/oidc/login")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		i := slices.IndexFunc(res.Cookies(), func(c *http.Cookie) bool { return c.Name == "deckhand_session" })
		require.GreaterOrEqual(t, i, 0)
		return browser(t, h, res.Cookies()[i].Name+"="+res.Cookies()[i].Value)
	}
	logout := func(change map[string]any, sign func([]byte) string) int {
		t.Helper()
		claims := map[string]any{
			"iss": p.URL, "aud": idpClient, "iat": time.Now().Unix(), "exp": time.Now().Add(2 * time.Minute).Unix(), "jti": rand.Text(),
			"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
		}
		maps.Copy(claims, change)
		maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
		payload, err := json.Marshal(claims)
		require.NoError(t, err)
		if sign == nil {
			sign = func(payload []byte) string { return p.signed(p.key, payload) }
		}
		res, err := http.PostForm(front+"/oidc/logout", url.Values{"logout_token": {sign(payload)}})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		return res.StatusCode
	}
	stands := func(c *sdk.Client) bool {
		t.Helper()
		_, err := c.Agents.ListAgents(t.Context(), &deckhandv1.ListAgentsRequest{})
		if err != nil {
			require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err), "%v", err)
		}
		return err == nil
	}

	desk, phone, old, other := enters("s1", "desk"), enters("s1", "phone"), enters("s1", ""), enters("s2", "theirs")
	token := h.Client(t, do(t, desk.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "ci"}).GetSecret())
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for what, c := range map[string]struct {
		change map[string]any
		sign   func([]byte) string
	}{
		"an id token":    {change: map[string]any{"nonce": "x"}},
		"another client": {change: map[string]any{"aud": "someone"}},
		"another issuer": {change: map[string]any{"iss": "https://evil.example"}},
		"too old":        {change: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}},
		"no logout":      {change: map[string]any{"events": map[string]any{}}},
		"no time":        {change: map[string]any{"iat": nil}},
		"of nobody":      {change: map[string]any{"sub": nil}},
		"another key":    {sign: func(payload []byte) string { return p.signed(strange, payload) }},
		"no signature": {sign: func(payload []byte) string {
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
		}},
		"nothing": {sign: func([]byte) string { return "" }},
	} {
		claims := map[string]any{"sub": "s1"}
		maps.Copy(claims, c.change)
		require.Equal(t, http.StatusBadRequest, logout(claims, c.sign), what)
	}
	require.True(t, stands(desk) && stands(phone) && stands(old) && stands(other))
	require.Equal(t, http.StatusOK, logout(map[string]any{"sub": "s1", "iat": time.Now().Add(-10 * time.Minute).Unix()}, nil))
	require.True(t, stands(desk) && stands(phone) && stands(old), "a token from before they logged in")
	require.Equal(t, http.StatusOK, logout(map[string]any{"sub": "nobody"}, nil))

	require.Equal(t, http.StatusOK, logout(map[string]any{"sid": "desk"}, nil))
	require.False(t, stands(desk))
	require.True(t, stands(phone) && stands(old) && stands(other))
	desk = enters("s1", "desk-2")
	ctx, call := connect.NewClientContext(t.Context())
	_, err = desk.Sessions.CreateSession(ctx, &deckhandv1.CreateSessionRequest{
		With: &deckhandv1.CreateSessionRequest_Code{Code: do(t, desk.Sessions.CreateLoginCode, &deckhandv1.CreateLoginCodeRequest{}).GetCode()},
	})
	require.NoError(t, err)
	made, err := http.ParseSetCookie(call.ResponseHeader().Get("Set-Cookie"))
	require.NoError(t, err)
	tablet := browser(t, h, made.Name+"="+made.Value)
	require.True(t, stands(tablet))
	require.Equal(t, http.StatusOK, logout(map[string]any{"sub": "s1", "sid": "desk-2"}, nil))
	require.False(t, stands(desk) || stands(old) || stands(tablet), "where it is not known which login it came from, it may be this one")
	require.True(t, stands(phone) && stands(other))
	require.Equal(t, http.StatusOK, logout(map[string]any{"sub": "s1"}, nil))
	require.False(t, stands(phone))
	require.True(t, stands(other) && stands(token), "others' sessions, and tokens")

	entries := do(t, h.Client(t, h.AdminToken).Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Action: "session.ended", PageSize: 50}).GetEntries()
	require.Len(t, entries, 5)
	for _, e := range entries {
		require.Equal(t, "oidc", e.GetActorId())
		require.Contains(t, e.GetReason(), "identity provider")
	}
}

// Guesses at logout tokens are refused before long, as guesses at logins are.
func TestLogoutTokensAreNotGuessedAt(t *testing.T) {
	t.Parallel()
	_, front := behindFront(t, newIDP(t))
	refused := 0
	for range 40 {
		res, err := http.PostForm(front+"/oidc/logout", url.Values{"logout_token": {"a.b.c"}})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if res.StatusCode == http.StatusTooManyRequests {
			refused++
		} else {
			require.Equal(t, http.StatusBadRequest, res.StatusCode)
		}
	}
	require.Equal(t, 10, refused)
}

// A configuration that cannot work is refused as the hub starts.
func TestOIDCNeedsWhatItNeeds(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*hub.Config){
		"oidc-issuer":    func(c *hub.Config) { c.OIDCIssuer = "http://login.example.com" },
		"public-url":     func(c *hub.Config) { c.PublicURL = "hub.example.com" },
		"oidc-client-id": func(c *hub.Config) { c.OIDCClientID = "" },
		"oidc-roles":     func(c *hub.Config) { c.OIDCRoles = "ops=root" },
	} {
		cfg := hubtest.Config(t)
		cfg.OIDCIssuer, cfg.OIDCClientID, cfg.PublicURL, cfg.OIDCRoles = "https://login.example.com", "x", "https://hub.example.com", "*=viewer"
		change(&cfg)
		_, err := cfg.Complete(t.Context())
		require.ErrorContains(t, err, field)
	}
	h := hubtest.Start(t, hubtest.Config(t))
	res, err := http.Get(h.URL() + "/oidc/status")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"enabled":false}`, string(text))
	_, err = whoAmI(t, h.Client(t, ""))
	refusedAs(t, connect.CodeUnauthenticated, err)
}
