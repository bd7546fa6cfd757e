// Package mcp is the command "deckhand mcp": an MCP server on standard input and output,
// for clients that start a program. It forwards everything to the hub's own MCP server,
// with the token of the command line, so that both have the same tools.
//
// If the hub cannot be reached, the call fails and the next one connects again. It ends
// when its input ends.
package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand mcp".
func Command(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "mcp", Short: "Serve the hub's tools to an MCP client",
		Long: `Serve the hub's MCP tools on standard input and output, for programs such as Claude
Code, Cursor and VS Code: they list agents, run tasks, wait for them and read their
results, with your rights. Clients that connect to a URL use the hub's /mcp instead.

The client starts this command. It takes the hub and the token as all commands do.
For a token with fewer rights, see: deckhand token create --help

Cursor (~/.cursor/mcp.json) and Claude Code (.mcp.json):

  {"mcpServers": {"deckhand": {"command": "deckhand", "args": ["mcp"]}}}

VS Code (.vscode/mcp.json):

  {"servers": {"deckhand": {"type": "stdio", "command": "deckhand", "args": ["mcp"]}}}`,
		Example: `claude mcp add deckhand -- deckhand mcp
deckhand mcp --hub https://hub.example.com --token dhu_…`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, err := e.Client()
			if err != nil {
				return err
			}
			// A wrong address or token is an error of the command, and not of the first call.
			if _, err := hub.Sessions.GetSession(cmd.Context(), &deckhandv1.GetSessionRequest{}); err != nil {
				return err
			}
			url, token, err := e.Hub()
			if err != nil {
				return err
			}
			f := &forwarder{endpoint: url + "/mcp", http: &http.Client{Transport: bearer{token: token, next: http.DefaultTransport}}}
			defer f.close()
			server, err := f.server(cmd.Context())
			if err != nil {
				return err
			}
			err = server.Run(cmd.Context(), &mcp.IOTransport{Reader: io.NopCloser(e.In), Writer: keepOpen{e.Out}})
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
}

// keepOpen is a writer that is not the command's to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// bearer adds the token to each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}
