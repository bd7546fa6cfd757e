package credential

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The secrets of the office suite.
const (
	officeSecret = "GOCSPX-office-secret-4be1a7"
	// officeRedirect is where the browser of who consents is sent: a port of their own machine,
	// for a program of the type "Desktop app".
	officeRedirect = "http://127.0.0.1:1/"
)

// office is an office suite with an OAuth 2.0 server: its tools are those of a drive, documents
// and sheets over MCP, its access tokens end after a few seconds, and a refresh token can be used
// once.
type office struct {
	life time.Duration

	mu sync.Mutex
	// code and challenge are those of the consent, until the code is used.
	code, challenge string
	// refresh is the refresh token that works.
	refresh  string
	issued   []time.Time
	consents int
}

// authorize serves the page on which a person consents.
func (o *office) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != clientID || q.Get("redirect_uri") != officeRedirect ||
		q.Get("code_challenge_method") != "S256" || q.Get("scope") != "drive sheets" || q.Get("access_type") != "offline" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.consents++
	o.code, o.challenge = fmt.Sprintf("4/office-code-%d", o.consents), q.Get("code_challenge")
	http.Redirect(w, r, officeRedirect+"?"+url.Values{"code": {o.code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// token serves the token endpoint.
func (o *office) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	consented := r.PostFormValue("grant_type") == "authorization_code" && o.code != "" && r.PostFormValue("code") == o.code &&
		r.PostFormValue("redirect_uri") == officeRedirect && base64.RawURLEncoding.EncodeToString(verifier[:]) == o.challenge
	refreshed := r.PostFormValue("grant_type") == "refresh_token" && o.refresh != "" && r.PostFormValue("refresh_token") == o.refresh
	if id != clientID || secret != officeSecret || !consented && !refreshed {
		o.refresh = "" // one that is used again ends the consent
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`)
		return
	}
	o.issued, o.code = append(o.issued, time.Now()), ""
	o.refresh = fmt.Sprintf("1//office-refresh-token-%d-93ab61cd", len(o.issued))
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_in":%d,"scope":"drive sheets"}`,
		o.name(len(o.issued)), o.refresh, int(o.life.Seconds()))
}

// consent does what a person does with the command line of the suite: they consent in the
// browser, and the program exchanges the code for a refresh token, which it writes into a file.
func consent(t *testing.T, server *origin) (file string) {
	t.Helper()
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(server.roots)
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(pem))
	browser := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	program := oauth2.Config{
		ClientID: clientID, ClientSecret: officeSecret, RedirectURL: officeRedirect, Scopes: []string{"drive", "sheets"},
		Endpoint: oauth2.Endpoint{AuthURL: server.url() + "/authorize", TokenURL: server.url() + "/token"},
	}
	verifier := oauth2.GenerateVerifier()
	res, err := browser.Get(program.AuthCodeURL("a state", oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(verifier)))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusFound, res.StatusCode)
	back, err := res.Location()
	require.NoError(t, err)
	require.Equal(t, "a state", back.Query().Get("state"))
	issued, err := program.Exchange(context.WithValue(t.Context(), oauth2.HTTPClient, browser), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	require.NotEmpty(t, issued.RefreshToken)
	file = filepath.Join(t.TempDir(), "google.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"type":"authorized_user","client_id":%q,"client_secret":%q,"refresh_token":%q}`, clientID, officeSecret, issued.RefreshToken), 0o600))
	return file
}

func (o *office) name(n int) string { return fmt.Sprintf("ya29.office-access-token-%d-7d20c4", n) }

// admits reports whether a request has a token that has not ended.
func (o *office) admits(r *http.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, at := range o.issued {
		if r.Header.Get("Authorization") == "Bearer "+o.name(i+1) {
			return time.Since(at) < o.life
		}
	}
	return false
}

// suite returns the MCP server.
func suite() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	type query struct {
		Query string `json:"query"`
	}
	type document struct {
		ID string `json:"id"`
	}
	type row struct {
		ID  string `json:"id"`
		Row string `json:"row"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "drive_search", Description: "Find files."}, func(_ context.Context, _ *mcp.CallToolRequest, in query) (*mcp.CallToolResult, any, error) {
		return text("doc-1 %s report; sheet-1 %s figures", in.Query, in.Query), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "docs_read", Description: "Read a document."}, func(_ context.Context, _ *mcp.CallToolRequest, in document) (*mcp.CallToolResult, any, error) {
		return text("content of %s", in.ID), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "sheets_append", Description: "Append a row."}, func(_ context.Context, _ *mcp.CallToolRequest, in row) (*mcp.CallToolResult, any, error) {
		return text("appended %s to %s", in.Row, in.ID), nil, nil
	})
	return s
}

// An agent works in an office suite over MCP with what a person has consented to: the hub gets
// an access token with the refresh token, again when it ends with the refresh token that it got
// then, and the proxy inserts it. The jail has none of them.
func TestAnAgentWorksInAnOfficeSuite(t *testing.T) {
	t.Parallel()
	o := &office{life: 5 * time.Second}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return suite() }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := newOrigin(t, "10.98.61.1", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/authorize":
			o.authorize(w, r)
		case r.URL.Path == "/token":
			o.token(w, r)
		case !o.admits(r):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			handler.ServeHTTP(w, r)
		}
	})
	f := harness.NewOn(t, "--provider-allow", "10.98.0.0/16,127.0.0.0/8")
	f.StartNode()
	f.StartWorker()
	file := consent(t, server)
	f.CLI(0, "credential", "create", "google", "--kind", "oauth2_client", "--token-url", server.url()+"/token", "--client-id", clientID,
		"--host", server.host, "--port", server.port, "--roots", server.roots, "--path", "/mcp", "--agent", "clerk", "--private", "--value-file", file)
	f.Persona("clerk", `
turns:
  - text: I look for the report.
    calls: [{tool: mcp__office__drive_search, arguments: {query: March}}]
  - text: I read it, once the token has ended.
    calls:
      - {tool: shell_exec, arguments: {command: "env; sleep 6"}}
      - {tool: mcp__office__docs_read, arguments: {id: doc-1}}
      - {tool: mcp__office__sheets_append, arguments: {id: sheet-1, row: "March;12"}}
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "the figures are in the sheet", sources: [{kind: document, reference: doc-1, title: March report}]}}]
`, "mode: autonomous", "credentials: [google]", fmt.Sprintf("egress: {allow: [%q]}", server.host+":"+server.port), fmt.Sprintf("mcp: [{name: office, url: %q}]", server.url()+"/mcp"))
	id := f.Submit("clerk")
	f.Ended(id)
	var steps []struct{ Tool, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 5)
	for i, want := range []string{"March report; sheet-1 March figures", "", "content of doc-1", "appended March;12 to sheet-1"} {
		assert.Contains(t, steps[i].Observation, want, steps[i].Tool)
		for _, secret := range []string{officeSecret, "office-refresh-token", "ya29."} {
			assert.NotContains(t, steps[i].Observation, secret)
		}
	}
	o.mu.Lock()
	issued := len(o.issued)
	o.mu.Unlock()
	require.GreaterOrEqual(t, issued, 3, "that of the consent, and another one when the first of the agent's had ended, each with its own refresh token")
	for _, r := range server.seen() {
		if r.URL.Path == "/mcp" {
			assert.True(t, strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ya29.office-access-token-"), r.Header.Get("Authorization"))
		}
	}
	shown := f.CLI(0, "task", "show", id).Out
	require.Contains(t, shown, "document doc-1: March report")
}
