package models

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// gadget acts as deckhand-skill for an MCP server with so many tools, each of which
// returns an image. gadget returns that image too.
func gadget(t *testing.T, tools int) (run func(*nodev1.ExecSpec) (string, bool), picture []byte) {
	t.Helper()
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, image.NewRGBA(image.Rect(0, 0, 3, 3))))
	sum := sha256.Sum256(data.Bytes())
	write := func(said map[string]any) string {
		out, err := json.Marshal(said)
		require.NoError(t, err)
		return string(out)
	}
	return func(spec *nodev1.ExecSpec) (string, bool) {
		if len(spec.GetArgv()) < 3 || spec.GetArgv()[1] != "mcp" {
			return "", false
		}
		if spec.GetArgv()[2] == "serve" {
			return "", true
		}
		var asked struct {
			List bool
			Tool string
		}
		require.NoError(t, json.Unmarshal(spec.GetStdin(), &asked))
		if !asked.List {
			return write(map[string]any{
				"text":   asked.Tool + " is turned",
				"images": []any{map[string]any{"media_type": "image/png", "data": data.Bytes(), "sha256": hex.EncodeToString(sum[:])}},
			}), true
		}
		var list []any
		for i := range tools {
			list = append(list, map[string]any{
				"name": fmt.Sprintf("knob_%02d", i), "description": fmt.Sprintf("Turns the knob of circle %d", i), "digest": fmt.Sprintf("d%d", i),
				"input_schema": map[string]any{"type": "object", "properties": map[string]any{fmt.Sprintf("degrees_%02d", i): map[string]any{"type": "integer"}}},
			})
		}
		return write(map[string]any{"tools": list}), true
	}, data.Bytes()
}

// offered are the names of the tools of a request, in any format.
func offered(v any) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			out = append(out, offered(item)...)
		}
	case map[string]any:
		if name, ok := v["name"].(string); ok {
			out = append(out, name)
		}
		for _, item := range v {
			out = append(out, offered(item)...)
		}
	}
	return out
}

// In every wire format: of many tools of an MCP server a model gets the names, finds one,
// learns about that one alone, and calls it. An image in a result reaches the models that accept images,
// and the others learn that there was one.
func TestAModelFindsAToolAmongMany(t *testing.T) {
	t.Parallel()
	for name, f := range modeltest.Formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modeltest.New(t, modeltest.List(
				answer(block{Tool: "tool_search", ID: "call_1", Input: `{"query": "knob of circle 17", "limit": 1}`}),
				answer(block{Tool: "call_tool", ID: "call_2", Input: `{"tool": "mcp__gadget__knob_17", "arguments": {"degrees_17": 90}}`}),
				answer(done)))
			r := newRig(t)
			run, picture := gadget(t, 30)
			r.mu.Lock()
			r.run = run
			r.mu.Unlock()
			r.connect(f, srv.URL)
			r.apply("turner", served[f][0], served[f][1], "mcp: [{name: gadget, command: [gadget]}]\n")
			task := r.rested(r.submit("turner", "turn knob 17"))
			require.Equal(t, succeeded, task.GetState(), "%s %s", task.GetReason(), task.GetErrorMessage())
			require.Equal(t, "succeeded", row[string](r, "SELECT state FROM steps WHERE task_id = $1 AND tool = 'mcp__gadget__knob_17'", task.GetId()))

			requests := srv.Requests()
			require.Len(t, requests, 3)
			first := offered(requests[0].Body["tools"])
			require.Contains(t, first, "tool_search")
			require.Contains(t, first, "call_tool")
			require.False(t, slices.ContainsFunc(first, func(n string) bool { return strings.HasPrefix(n, "mcp__") }), "%v", first)
			require.Contains(t, requests[0].Text, "mcp__gadget__knob_29", "it is told the names")
			require.NotContains(t, requests[0].Text, "Turns the knob of circle")
			for _, later := range requests[1:] {
				require.Equal(t, first, offered(later.Body["tools"]), "the tools never change, or nothing behind them would stay cached")
			}
			require.Contains(t, requests[2].Text, "degrees_17", "the call goes back as it was made")
			require.Contains(t, requests[1].Text, "Turns the knob of circle 17")
			require.NotContains(t, requests[1].Text, "Turns the knob of circle 16")

			shown := base64.StdEncoding.EncodeToString(picture)
			require.Contains(t, requests[2].Text, "knob_17 is turned")
			if f == modeltest.Chat { // its model cannot see
				require.NotContains(t, requests[2].Text, shown)
				require.Contains(t, requests[2].Text, fmt.Sprintf("[an image, image/png, %d bytes, which this model cannot be shown]", len(picture)))
			} else {
				require.Contains(t, requests[2].Text, shown)
			}
		})
	}
}
