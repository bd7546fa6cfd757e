package mcpbridge_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/skill/mcpbridge"
)

// reach starts a bridge to a server elsewhere.
func reach(t *testing.T, url string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	r.socket = filepath.Join(r.dir, "s")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- mcpbridge.Serve(ctx, mcpbridge.Config{Socket: r.socket, IdleSeconds: 600, URL: url}, io.Discard)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// MCP over HTTP. The same bridge, so that calls, bounds and ends are those
// of a server in the jail.
func TestAServerElsewhereIsAskedOverItsBridge(t *testing.T) {
	t.Parallel()
	sum := 0
	far := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	type adding struct {
		N int `json:"n"`
	}
	mcp.AddTool(far, &mcp.Tool{Name: "add", Description: "Adds"}, func(_ context.Context, _ *mcp.CallToolRequest, in adding) (*mcp.CallToolResult, any, error) {
		sum += in.N
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", sum)}}}, nil, nil
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return far }, nil))
	defer func() {
		for s := range far.Sessions() {
			_ = s.Close()
		}
	}()
	defer server.Close()
	r := reach(t, server.URL)
	add := r.tools()["add"]
	require.Equal(t, "xx", r.call(add, `{"n":2}`).Text)
	require.Equal(t, "xxxxx", r.call(add, `{"n":3}`).Text)
	server.CloseClientConnections()
	server.Close()
	said := r.call(add, `{"n":1}`)
	require.True(t, said.Ended, "%+v", said)
	require.Error(t, <-r.ended)
	r.ended <- nil
}

func TestAServerElsewhereThatIsNotThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	require.Contains(t, reach(t, server.URL).ask(mcpbridge.Request{List: true}).Error, "the server did not start")
}
