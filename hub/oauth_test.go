package hub_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	mcpauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// redirectURI is where the program of the tests gets its codes. Nothing listens there: the
// tests read the redirect.
const redirectURI = "http://127.0.0.1:1/callback"

// program is a program that people connect, and the browser of one of them.
type program struct {
	t              *testing.T
	url, cookie    string
	id             string
	verifier, scop string
}

// send makes a request without following redirects, and returns the response and its body.
func (p *program) send(method, path string, header http.Header, body string) (*http.Response, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header = header.Clone()
	if method == http.MethodPost && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	require.NoError(p.t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return res, string(all)
}

func (p *program) register(name string, uris ...string) (id string, status int) {
	p.t.Helper()
	body, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": uris})
	require.NoError(p.t, err)
	res, text := p.send(http.MethodPost, "/oauth/register", http.Header{"Content-Type": {"application/json"}}, string(body))
	var out struct {
		ClientID string `json:"client_id"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(text), &out))
	return out.ClientID, res.StatusCode
}

// ask is the query of the page on which a person allows the program.
func (p *program) ask() url.Values {
	sum := sha256.Sum256([]byte(p.verifier))
	return url.Values{
		"client_id": {p.id}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "state": {"s1"}, "scope": {p.scop},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {p.url + "/mcp"},
	}
}

// allow has the person allow a scope, and returns the code.
func (p *program) allow(scope string) string {
	p.t.Helper()
	form := p.ask()
	form.Set("scope", scope)
	form.Set("decision", "allow")
	res, text := p.send(http.MethodPost, "/oauth/authorize", http.Header{"Cookie": {p.cookie}, "Sec-Fetch-Site": {"same-origin"}}, form.Encode())
	require.Equal(p.t, http.StatusSeeOther, res.StatusCode, text)
	back, err := res.Location()
	require.NoError(p.t, err)
	require.Equal(p.t, redirectURI, (&url.URL{Scheme: back.Scheme, Host: back.Host, Path: back.Path}).String())
	require.Equal(p.t, "s1", back.Query().Get("state"))
	require.Equal(p.t, p.url, back.Query().Get("iss"))
	require.Empty(p.t, back.Query().Get("error"))
	return back.Query().Get("code")
}

// tokens is a response of the token endpoint.
type tokens struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
	ExpiresIn    int    `json:"expires_in"`
	Error        string `json:"error"`
	status       int
}

func (p *program) token(form url.Values) (out tokens) {
	p.t.Helper()
	res, text := p.send(http.MethodPost, "/oauth/token", http.Header{}, form.Encode())
	require.NoError(p.t, json.Unmarshal([]byte(text), &out), text)
	require.Equal(p.t, "no-store", res.Header.Get("Cache-Control"))
	out.status = res.StatusCode
	return out
}

func (p *program) exchange(code, verifier string) tokens {
	return p.token(url.Values{
		"grant_type": {"authorization_code"}, "client_id": {p.id}, "code": {code}, "redirect_uri": {redirectURI}, "code_verifier": {verifier},
		"resource": {p.url + "/mcp"},
	})
}

func (p *program) refresh(token string) tokens {
	return p.token(url.Values{"grant_type": {"refresh_token"}, "client_id": {p.id}, "refresh_token": {token}})
}

// works reports whether an access token is admitted to the MCP server.
func (p *program) works(access string) bool {
	p.t.Helper()
	status, _ := rawMCP(p.t, p.url, http.Header{"Authorization": {"Bearer " + access}}, "ping", nil)
	return status == http.StatusOK
}

func newProgram(t *testing.T, h *hubtest.Hub, token string) *program {
	t.Helper()
	p := &program{t: t, url: h.URL(), cookie: login(t, h, token), verifier: ident.Secret("v"), scop: "run"}
	var status int
	p.id, status = p.register("Test client", redirectURI)
	require.Equal(t, http.StatusCreated, status)
	return p
}

// The official client finds the authorization server by itself, registers, has a person
// allow it, and uses the tools.
func TestTheOfficialMCPClientConnectsByOAuth(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	p := &program{t: t, url: h.URL(), cookie: login(t, h, h.AdminToken)}
	handler, err := mcpauth.NewAuthorizationCodeHandler(&mcpauth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &mcpauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Claude \u202eevil", RedirectURIs: []string{redirectURI},
		}},
		AuthorizationCodeFetcher: func(_ context.Context, args *mcpauth.AuthorizationArgs) (*mcpauth.AuthorizationResult, error) {
			u, err := url.Parse(args.URL)
			require.NoError(t, err)
			res, _ := p.send(http.MethodGet, u.RequestURI(), http.Header{}, "")
			require.Equal(t, http.StatusSeeOther, res.StatusCode)
			require.True(t, strings.HasPrefix(res.Header.Get("Location"), "/login?next=%2Foauth%2Fauthorize%3F"), "who is not logged in does that first")
			res, page := p.send(http.MethodGet, u.RequestURI(), http.Header{"Cookie": {p.cookie}}, "")
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Contains(t, html.UnescapeString(page), "Claude ⟦U+202E⟧evil", "what turns text around is shown")
			require.Contains(t, page, redirectURI, "the whole address")
			require.Equal(t, "same-origin", res.Header.Get("Referrer-Policy"), "without a referrer the form would have no origin")
			require.Contains(t, page, "admin")
			require.NotContains(t, page, `value="decide"`, "the hub does not offer it")
			require.Contains(t, res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			form := u.Query()
			form.Set("scope", "run")
			form.Set("decision", "allow")
			res, _ = p.send(http.MethodPost, "/oauth/authorize", http.Header{"Cookie": {p.cookie}, "Origin": {h.URL()}}, form.Encode())
			back, err := res.Location()
			require.NoError(t, err)
			return &mcpauth.AuthorizationResult{Code: back.Query().Get("code"), State: back.Query().Get("state"), Iss: back.Query().Get("iss")}, nil
		},
	})
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: h.URL() + "/mcp", DisableStandaloneSSE: true, OAuthHandler: handler}, nil)
	require.NoError(t, err)
	defer session.Close()
	_, text := tool(t, session, "agent_list", nil)
	require.Contains(t, text, "no agents")

	// The program is a token of its user, which is listed and revoked like any other.
	admin := h.Client(t, h.AdminToken)
	var connected *deckhandv1.Token
	for _, found := range do(t, admin.Tokens.ListTokens, &deckhandv1.ListTokensRequest{}).GetTokens() {
		if found.GetMcp() {
			connected = found
		}
	}
	require.Equal(t, "Claude ⟦U+202E⟧evil (127.0.0.1)", connected.GetName())
	require.Equal(t, "admin", connected.GetUserName())
	do(t, admin.Tokens.RevokeToken, &deckhandv1.RevokeTokenRequest{TokenId: connected.GetId()})
	status, _ := rawMCP(t, h.URL(), http.Header{}, "ping", nil)
	require.Equal(t, http.StatusUnauthorized, status)
}

// Codes and refresh tokens work once, for the program that they were given to, and a
// second use disconnects it.
func TestOAuthGrantsWorkOnceAndForTheirProgram(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	p := newProgram(t, h, h.AdminToken)
	got := p.exchange(p.allow("run"), p.verifier)
	require.Empty(t, got.Error)
	require.Equal(t, "run", got.Scope)
	require.Equal(t, 3600, got.ExpiresIn)
	require.True(t, p.works(got.AccessToken))

	// It is good for the MCP server only, and makes no tokens and no sessions with more rights.
	program := h.Client(t, got.AccessToken)
	refuses(t, connect.CodePermissionDenied, program.Tasks.ListTasks, &deckhandv1.ListTasksRequest{})
	refuses(t, connect.CodePermissionDenied, program.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "x"})
	browser := login(t, h, got.AccessToken)
	status, _ := rawMCP(t, h.URL(), http.Header{"Cookie": {browser}, "Sec-Fetch-Site": {"same-origin"}}, "ping", nil)
	require.Equal(t, http.StatusOK, status)
	res, _ := p.send(http.MethodPost, "/deckhand.v1.TaskService/ListTasks", http.Header{
		"Cookie": {browser}, "Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"},
	}, "{}")
	require.Equal(t, http.StatusForbidden, res.StatusCode)

	// Each refresh gives other secrets; the ones before it end.
	next := p.refresh(got.RefreshToken)
	require.Empty(t, next.Error)
	require.True(t, p.works(next.AccessToken))
	require.False(t, p.works(got.AccessToken))
	stranger := newProgram(t, h, h.AdminToken)
	require.Equal(t, "invalid_grant", stranger.refresh(next.RefreshToken).Error, "another program's")
	require.Equal(t, "invalid_grant", p.refresh(ident.Secret("dhr")).Error)
	require.True(t, p.works(next.AccessToken))
	// A refresh whose response was lost is repeated once. The tokens of that response are void.
	repeated := p.refresh(got.RefreshToken)
	require.Empty(t, repeated.Error)
	require.True(t, p.works(repeated.AccessToken))
	require.False(t, p.works(next.AccessToken))
	again := p.refresh(got.RefreshToken)
	require.Equal(t, "invalid_grant", again.Error, "repeated twice")
	require.Equal(t, http.StatusBadRequest, again.status)
	require.False(t, p.works(repeated.AccessToken), "one of the two has stolen it")
	require.Equal(t, "invalid_grant", p.refresh(repeated.RefreshToken).Error)
	for what, use := range map[string]func(first, next, repeated tokens) string{
		"the tokens of a response that was lost": func(_, next, _ tokens) string { return next.RefreshToken },
		"a token whose next one was used": func(first, _, repeated tokens) string {
			require.Empty(t, p.refresh(repeated.RefreshToken).Error)
			return first.RefreshToken
		},
	} {
		first := p.exchange(p.allow("run"), p.verifier)
		next, repeated := p.refresh(first.RefreshToken), p.refresh(first.RefreshToken)
		require.Empty(t, repeated.Error, what)
		require.Equal(t, "invalid_grant", p.refresh(use(first, next, repeated)).Error, what)
		require.False(t, p.works(repeated.AccessToken), what)
	}

	// After a minute a refresh is not repeated.
	got = p.exchange(p.allow("run"), p.verifier)
	next = p.refresh(got.RefreshToken)
	queryText(t, h, "WITH late AS (UPDATE oauth_refresh_tokens SET used_at = used_at - interval '61 seconds' RETURNING 1) SELECT count(*)::text FROM late")
	require.Equal(t, "invalid_grant", p.refresh(got.RefreshToken).Error)
	require.False(t, p.works(next.AccessToken))

	// A wrong verifier, another redirect address, another program, and a second exchange.
	code := p.allow("run")
	require.Equal(t, "invalid_grant", p.exchange(code, ident.Secret("v")).Error)
	require.Equal(t, "invalid_grant", p.exchange(code, p.verifier).Error, "the code was used up")
	require.NotEmpty(t, p.exchange(p.allow("run"), "").Error, "without a verifier")
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {p.id}, "code": {p.allow("run")}, "redirect_uri": {"http://127.0.0.1:1/other"}, "code_verifier": {p.verifier}}
	require.Equal(t, "invalid_grant", p.token(form).Error)
	stranger.verifier = p.verifier
	require.Equal(t, "invalid_grant", stranger.exchange(p.allow("run"), p.verifier).Error)
	code = p.allow("run")
	got = p.exchange(code, p.verifier)
	require.True(t, p.works(got.AccessToken))
	require.Equal(t, "invalid_grant", p.exchange(code, p.verifier).Error)
	require.False(t, p.works(got.AccessToken), "a code that is used twice disconnects")
	require.Equal(t, "unsupported_grant_type", p.token(url.Values{"grant_type": {"password"}, "client_id": {p.id}, "username": {"admin"}, "password": {"x"}}).Error)

	// Another resource, at each step.
	ask := p.ask()
	ask.Set("resource", "https://other.example/mcp")
	res, page := p.send(http.MethodGet, "/oauth/authorize?"+ask.Encode(), http.Header{"Cookie": {p.cookie}}, "")
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.Contains(t, page, "invalid_target")
	form = url.Values{
		"grant_type": {"authorization_code"}, "client_id": {p.id}, "code": {p.allow("run")}, "redirect_uri": {redirectURI}, "code_verifier": {p.verifier},
		"resource": {"https://other.example/mcp"},
	}
	require.Equal(t, "invalid_target", p.token(form).Error)

	// The query of the token endpoint is not read.
	res, _ = p.send(http.MethodPost, "/oauth/token?resource="+url.QueryEscape(p.url+"/mcp")+"&code="+p.allow("run"), http.Header{}, url.Values{
		"grant_type": {"authorization_code"}, "client_id": {p.id}, "redirect_uri": {redirectURI}, "code_verifier": {p.verifier},
	}.Encode())
	require.Equal(t, http.StatusBadRequest, res.StatusCode)

	// A token that is too old for the organisation is not renewed.
	got = p.exchange(p.allow("run"), p.verifier)
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	change := func(query string) {
		_, err := conn.Exec(t.Context(), query)
		require.NoError(t, err)
	}
	change("UPDATE organisations SET max_token_ttl = interval '1 day'")
	change("UPDATE api_tokens SET created_at = now() - interval '2 days' WHERE scope->>'mcp' = 'true'")
	require.Equal(t, "invalid_grant", p.refresh(got.RefreshToken).Error)
	change("UPDATE api_tokens SET created_at = now() WHERE scope->>'mcp' = 'true'")
	got = p.refresh(got.RefreshToken)
	require.Empty(t, got.Error, "a refresh that failed has not used up the token")

	// A program disconnects itself, and no other.
	for _, secret := range []string{got.RefreshToken, got.AccessToken} {
		res, _ = p.send(http.MethodPost, "/oauth/revoke", http.Header{}, url.Values{"token": {secret}, "client_id": {stranger.id}}.Encode())
		require.Equal(t, http.StatusBadRequest, res.StatusCode)
	}
	require.True(t, p.works(got.AccessToken))
	res, _ = p.send(http.MethodPost, "/oauth/revoke", http.Header{}, url.Values{"token": {got.RefreshToken}, "client_id": {p.id}}.Encode())
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.False(t, p.works(got.AccessToken))
	require.Equal(t, "invalid_grant", p.refresh(got.RefreshToken).Error)
}

// The page sends nobody to an address that the program has not registered, is answered by
// its person only, and gives no more than the person has.
func TestOnlyAPersonAllowsAProgram(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s := openStore(t, h)
	victim := organisation(t, h, s, "victim")
	p := newProgram(t, h, h.AdminToken)
	for what, change := range map[string]func(url.Values){
		"another host":           func(v url.Values) { v.Set("redirect_uri", "https://evil.example/callback") },
		"another path":           func(v url.Values) { v.Set("redirect_uri", "http://127.0.0.1:1/other") },
		"an unknown program":     func(v url.Values) { v.Set("client_id", "oac_none") },
		"no program's id":        func(v url.Values) { v.Set("client_id", "oac_\x00") },
		"two redirect addresses": func(v url.Values) { v.Add("redirect_uri", "https://evil.example/callback") },
	} {
		ask := p.ask()
		change(ask)
		res, text := p.send(http.MethodGet, "/oauth/authorize?"+ask.Encode(), http.Header{"Cookie": {p.cookie}}, "")
		require.Equal(t, http.StatusBadRequest, res.StatusCode, what)
		require.Empty(t, res.Header.Get("Location"), what)
		require.Contains(t, text, "cannot be connected", what)
	}
	for what, change := range map[string]func(url.Values){
		"invalid_request":           func(v url.Values) { v.Set("code_challenge_method", "plain") },
		"unsupported_response_type": func(v url.Values) { v.Set("response_type", "token") },
	} {
		// Nobody is sent away by a link: the person sees the problem first, and goes back by a button.
		ask := p.ask()
		change(ask)
		res, _ := p.send(http.MethodGet, "/oauth/authorize?"+ask.Encode(), http.Header{}, "")
		require.Contains(t, res.Header.Get("Location"), "/login?next=", what)
		res, page := p.send(http.MethodGet, "/oauth/authorize?"+ask.Encode(), http.Header{"Cookie": {p.cookie}}, "")
		require.Equal(t, http.StatusBadRequest, res.StatusCode, what)
		require.Empty(t, res.Header.Get("Location"), what)
		require.Contains(t, page, what)
		ask.Set("decision", "deny")
		res, _ = p.send(http.MethodPost, "/oauth/authorize", http.Header{"Cookie": {p.cookie}, "Sec-Fetch-Site": {"same-origin"}}, ask.Encode())
		require.Contains(t, res.Header.Get("Location"), "error="+what)
	}
	// Another port of the same machine is the same program (RFC 8252).
	ask := p.ask()
	ask.Set("redirect_uri", "http://127.0.0.1:54321/callback")
	res, _ := p.send(http.MethodGet, "/oauth/authorize?"+ask.Encode(), http.Header{"Cookie": {p.cookie}}, "")
	require.Equal(t, http.StatusOK, res.StatusCode)

	form := p.ask()
	form.Set("decision", "allow")
	for what, header := range map[string]http.Header{
		"another site's form":     {"Cookie": {p.cookie}, "Origin": {"https://evil.example"}},
		"a form without a source": {"Cookie": {p.cookie}},
		"a program":               {"Authorization": {"Bearer " + h.AdminToken}},
		"nobody":                  {},
	} {
		res, _ := p.send(http.MethodPost, "/oauth/authorize", header, form.Encode())
		require.Equal(t, http.StatusForbidden, res.StatusCode, what)
		require.Empty(t, res.Header.Get("Location"), what)
	}
	form.Set("decision", "deny")
	res, _ = p.send(http.MethodPost, "/oauth/authorize", http.Header{"Cookie": {p.cookie}, "Sec-Fetch-Site": {"same-origin"}}, form.Encode())
	require.Contains(t, res.Header.Get("Location"), "error=access_denied")

	// To read is to read, and another organisation's tasks do not exist.
	got := p.exchange(p.allow("read"), p.verifier)
	bearer := http.Header{"Authorization": {"Bearer " + got.AccessToken}}
	_, body := rawMCP(t, h.URL(), bearer, "tools/call", map[string]any{"name": "task_run", "arguments": map[string]any{"agent": "x", "goal": "y"}})
	require.Contains(t, body, "this token may only read")
	_, body = rawMCP(t, h.URL(), bearer, "tools/call", map[string]any{"name": "task_get", "arguments": map[string]any{"task_id": victim.task}})
	require.Contains(t, body, `"isError":true`)
	_, body = rawMCP(t, h.URL(), bearer, "tools/list", nil)
	require.NotContains(t, body, `"name":"inbox_decide"`)
	// A right that is not offered cannot be taken by changing the form.
	form = p.ask()
	form.Set("scope", "decide")
	form.Set("decision", "allow")
	res, _ = p.send(http.MethodPost, "/oauth/authorize", http.Header{"Cookie": {p.cookie}, "Sec-Fetch-Site": {"same-origin"}}, form.Encode())
	back, err := res.Location()
	require.NoError(t, err)
	require.Equal(t, "read", p.exchange(back.Query().Get("code"), p.verifier).Scope)

	for _, uri := range []string{"http://evil.example/", "javascript:alert(1)", "https://u@evil.example/", "https://x.example/#f", "/relative", "data:text/html,x"} {
		_, status := p.register("x", uri)
		require.Equal(t, http.StatusBadRequest, status, uri)
	}
	_, status := p.register("x")
	require.Equal(t, http.StatusBadRequest, status)
	for _, uri := range []string{"https://claude.ai/api/mcp/auth_callback", "cursor://anysphere.cursor-retrieval/oauth/callback", "http://localhost:3000/cb"} {
		_, status := p.register("x", uri)
		require.Equal(t, http.StatusCreated, status, uri)
	}
	// The page names who gets the code.
	for uri, want := range map[string]string{
		"evilapp://claude.ai/callback":    "the program on this computer that opens evilapp: links",
		"https://cl\u0430ude.ai/callback": "https://xn--clude-5ve.ai/callback",
	} {
		id, status := p.register("Claude", uri)
		require.Equal(t, http.StatusCreated, status, uri)
		ask := p.ask()
		ask.Set("client_id", id)
		ask.Set("redirect_uri", uri)
		res, page := p.send(http.MethodGet, "/oauth/authorize?"+ask.Encode(), http.Header{"Cookie": {p.cookie}}, "")
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Contains(t, page, want)
	}

	// A full table loses the oldest program that nobody has connected, and none that somebody has.
	connected := queryText(t, h, "SELECT count(*)::text FROM oauth_clients WHERE used_at IS NOT NULL")
	fill := func(set string) {
		queryText(t, h, "WITH made AS (INSERT INTO oauth_clients (id, name, redirect_uris, created_at, used_at) SELECT 'oac_' || n, 'x', ARRAY['https://x.example/'], now() - interval '1 hour' - n * interval '1 millisecond', "+set+
			" FROM generate_series(1, 10000 - (SELECT count(*)::int FROM oauth_clients)) AS n RETURNING 1) SELECT count(*)::text FROM made")
	}
	fill("NULL")
	oldest := queryText(t, h, "SELECT id FROM oauth_clients WHERE used_at IS NULL ORDER BY created_at LIMIT 1")
	id, status := p.register("newest", redirectURI)
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "true", queryText(t, h, "SELECT (count(*) = 1)::text FROM oauth_clients WHERE id IN ('"+id+"', '"+oldest+"')"))
	require.Equal(t, connected, queryText(t, h, "SELECT count(*)::text FROM oauth_clients WHERE used_at IS NOT NULL"))
	queryText(t, h, "WITH all_used AS (UPDATE oauth_clients SET used_at = now() RETURNING 1) SELECT count(*)::text FROM all_used")
	_, status = p.register("one more", redirectURI)
	require.Equal(t, http.StatusServiceUnavailable, status)

	// One address does not fill the table.
	for n := 0; status != http.StatusTooManyRequests; n++ {
		require.Less(t, n, 30)
		_, status = p.register("x", redirectURI)
	}
}
