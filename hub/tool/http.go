package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// A request has its own timeout; the command that makes it has a little more.
	httpTimeout     = 5*time.Minute + 30*time.Second
	downloadTimeout = 30*time.Minute + 30*time.Second

	urlSchema = `"url":{"type":"string","minLength":8,"maxLength":8192,"pattern":"^https?://","description":"The complete URL"},
		"headers":{"type":"object","maxProperties":32,"additionalProperties":{"type":"string","maxLength":8192},"description":"Request headers"}`
	httpSchema = urlSchema + `,
		"timeout_seconds":{"type":"integer","minimum":1,"maximum":300,"description":"Time limit of the whole request; 60 by default"},
		"max_bytes":{"type":"integer","minimum":512,"maximum":65536,"description":"How much of the body is returned; 16384 by default"}`
	bodySchema = httpSchema + `,
		"body":{"type":"string","maxLength":131072,"description":"Sent unchanged, as application/json unless headers set another type"}`
)

// httpTools make requests in the jail, by the node's proxy: what the persona does
// not allow is refused there.
func httpTools() []*Tool {
	const effect = "the effect of the request on the server"
	request := func(name, description, example, schema string, category deckhandv1.ToolCategory) *Tool {
		return &Tool{
			Name: name, Description: description + " Reaches only the hosts that your system prompt lists. " + example,
			Kind: KindWeb, Returns: Foreign, Expected: 2 * time.Second,
			Category: category, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE, Irreversible: effect, Timeout: httpTimeout, runs: true,
			schema:  `{"type":"object","additionalProperties":false,"required":["url"],"properties":{` + schema + `}}`,
			run:     func(ctx context.Context, c Call) (Result, error) { return runHTTP(ctx, name, c, httpTimeout, false) },
			preview: previewHTTP(name),
		}
	}
	sends := func(t *Tool) *Tool {
		t.Leaves = func(map[string]any) bool { return true }
		return t
	}
	get := request(toolname.HTTPGet, "Send a GET request. Returns the status, the headers and the beginning of a text body. To save a file, use http_download.",
		`Example: {"url": "https://api.example.com/items?page=2"}.`,
		httpSchema, deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE)
	get.Idempotent, get.ReadOnly, get.Retryable, get.Irreversible = true, true, true, ""
	return []*Tool{
		get,
		sends(request(toolname.HTTPPost, "Send a POST request. Returns the status, the headers and the beginning of a text body.",
			`Example: {"url": "https://api.example.com/items", "body": "{\"name\": \"a\"}"}.`, bodySchema, deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE)),
		sends(request(toolname.HTTPPut, "Send a PUT request. Returns the status, the headers and the beginning of a text body.",
			`Example: {"url": "https://api.example.com/items/7", "body": "{\"name\": \"b\"}"}.`, bodySchema, deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE)),
		sends(request(toolname.HTTPDelete, "Send a DELETE request. Returns the status, the headers and the beginning of a text body.",
			`Example: {"url": "https://api.example.com/items/7"}.`, bodySchema, deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS)),
		{
			Name: toolname.HTTPDownload, Description: "Download a URL into a file of the workspace, completely or not at all. Reaches only the hosts that your system prompt lists. " +
				`Example: {"url": "https://example.com/data.csv", "path": "in/data.csv"}.`,
			Kind: KindWeb, Returns: Foreign, Expected: 10 * time.Second, Retryable: true,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
			Idempotent: true, Reversible: true, Timeout: downloadTimeout, runs: true,
			schema: `{"type":"object","additionalProperties":false,"required":["url","path"],"properties":{` + urlSchema + `,
				"path":` + pathSchema + `,
				"timeout_seconds":{"type":"integer","minimum":1,"maximum":1800,"description":"Time limit of the whole download; 600 by default"},
				"max_file_bytes":{"type":"integer","minimum":1,"maximum":1073741824,"description":"Larger files are refused; 100000000 by default"}}}`,
			run: func(ctx context.Context, c Call) (Result, error) {
				return runHTTP(ctx, toolname.HTTPDownload, c, downloadTimeout, true)
			},
		},
	}
}

// runHTTP makes a request. Its arguments may be longer than a command line.
func runHTTP(ctx context.Context, name string, c Call, timeout time.Duration, snapshot bool) (Result, error) {
	arguments, err := json.Marshal(c.Arguments)
	if err != nil {
		return Result{}, fmt.Errorf("encode the arguments of %s: %w", name, err)
	}
	return runSkillAs(ctx, c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Timeout: durationpb.New(timeout), Stdin: arguments, Snapshot: snapshot, Tool: name,
		Argv: []string{nodelink.SkillPath, "--json", name, "-"},
	})
}

// previewHTTP shows a request as a person reads it.
func previewHTTP(name string) func(arguments map[string]any) string {
	methods := map[string]string{toolname.HTTPGet: "GET", toolname.HTTPPost: "POST", toolname.HTTPPut: "PUT", toolname.HTTPDelete: "DELETE"}
	return func(arguments map[string]any) string {
		out := methods[name] + " " + text(arguments, "url")
		if headers, ok := arguments["headers"].(map[string]any); ok && len(headers) > 0 {
			if data, err := json.MarshalIndent(headers, "", "  "); err == nil {
				out += "\n" + string(data)
			}
		}
		if body := text(arguments, "body"); body != "" {
			out += fmt.Sprintf("\n\n%s", body)
		}
		return out
	}
}
