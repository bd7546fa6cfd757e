package mcpbridge

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reach begins the conversation with a server elsewhere, over MCP's streamable
// HTTP and by the proxy of the environment.
func (s *session) reach(ctx context.Context) error {
	s.way = &http.Transport{Proxy: http.ProxyFromEnvironment}
	conn, err := s.client().Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{
			Transport: bounded{s.way},
			// Which host is spoken with is the persona's to say.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil)
	if err != nil {
		return err
	}
	s.conn = conn
	s.watching.Go(func() { s.end(brokenOff(cmp.Or(conn.Wait(), io.EOF))) })
	return nil
}

// leave ends the conversation.
func (s *session) leave() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.watching.Wait()
	s.way.CloseIdleConnections()
}

// bounded limits a response to the size of one message; events are limited one
// by one.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err == nil && !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = http.MaxBytesReader(nil, res.Body, maxMessage)
	}
	return res, err
}
