package credential

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// The secrets of the office suite.
const (
	officeSecret  = "GOCSPX-office-secret-4be1a7"
	officeRefresh = "1//office-refresh-token-93ab61cd"
)

// office is an office suite with an OAuth 2.0 server: its tools are those of a drive, documents
// and sheets over MCP, and its access tokens end after a few seconds.
type office struct {
	life time.Duration

	mu     sync.Mutex
	issued []time.Time
}

// token serves the token endpoint.
func (o *office) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	if r.PostFormValue("grant_type") != "refresh_token" || r.PostFormValue("refresh_token") != officeRefresh || id != clientID || secret != officeSecret {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.issued = append(o.issued, time.Now())
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d,"scope":"drive"}`, o.name(len(o.issued)), int(o.life.Seconds()))
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
// an access token with the refresh token, again when it ends, and the proxy inserts it. The jail
// has neither.
func TestAnAgentWorksInAnOfficeSuite(t *testing.T) {
	t.Parallel()
	o := &office{life: 5 * time.Second}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return suite() }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := newOrigin(t, "10.98.61.1", func(w http.ResponseWriter, r *http.Request) {
		switch {
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
	file := filepath.Join(t.TempDir(), "google.json")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`{"type":"authorized_user","client_id":%q,"client_secret":%q,"refresh_token":%q}`, clientID, officeSecret, officeRefresh)), 0o600))
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
		for _, secret := range []string{officeSecret, officeRefresh, "ya29."} {
			assert.NotContains(t, steps[i].Observation, secret)
		}
	}
	o.mu.Lock()
	issued := len(o.issued)
	o.mu.Unlock()
	require.GreaterOrEqual(t, issued, 2, "the first token had ended")
	for _, r := range server.seen() {
		if r.URL.Path == "/mcp" {
			assert.True(t, strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ya29.office-access-token-"), r.Header.Get("Authorization"))
		}
	}
	shown := f.CLI(0, "task", "show", id).Out
	require.Contains(t, shown, "document doc-1: March report")
}
