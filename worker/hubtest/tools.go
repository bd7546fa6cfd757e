package hubtest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Tools returns records like those of the hub's registry.
func Tools(t testing.TB) []*deckhandv1.Tool {
	t.Helper()
	text := map[string]any{"type": "string"}
	tool := func(name string, place deckhandv1.ToolPlace, readOnly bool, required []any, properties map[string]any) *deckhandv1.Tool {
		schema, err := structpb.NewStruct(map[string]any{
			"type": "object", "additionalProperties": false, "required": required, "properties": properties,
		})
		require.NoError(t, err)
		return &deckhandv1.Tool{
			Name: name, Description: "Does " + name, InputSchema: schema, Place: place, ReadOnly: readOnly, Idempotent: readOnly,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE,
		}
	}
	const (
		node   = deckhandv1.ToolPlace_TOOL_PLACE_NODE
		worker = deckhandv1.ToolPlace_TOOL_PLACE_WORKER
	)
	complete := tool(toolname.CompleteTask, worker, false, []any{"summary"}, map[string]any{
		"status": map[string]any{"enum": []any{"done", "partial", "blocked", "failed"}}, "question": text,
		"summary": text, "files_changed": map[string]any{"type": "array", "items": text},
		"left_over": map[string]any{"type": "array", "items": text},
	})
	complete.Ends = true
	return []*deckhandv1.Tool{
		tool(toolname.ShellExec, node, false, []any{"command"}, map[string]any{"command": text, "timeout_seconds": map[string]any{"type": "integer"}}),
		tool(toolname.LogDigest, node, true, []any{"path"}, map[string]any{"path": text}),
		tool(toolname.FileRead, node, true, []any{"path"}, map[string]any{"path": text}),
		tool(toolname.FileList, node, true, []any{}, map[string]any{"path": text, "recursive": map[string]any{"type": "boolean"}}),
		tool(toolname.FileWrite, node, false, []any{"path", "content"}, map[string]any{"path": text, "content": text}),
		tool(toolname.ManageScratchpad, node, false, []any{}, map[string]any{"append": text, "read": map[string]any{"type": "boolean"}}),
		tool(toolname.UpdatePlan, worker, false, []any{"items"}, map[string]any{
			"items": map[string]any{"type": "array", "items": map[string]any{
				"type": "object", "required": []any{"id", "title", "status"}, "properties": map[string]any{
					"id": text, "title": text, "status": map[string]any{"enum": []any{"pending", "in_progress", "done", "skipped"}},
					"parent": text, "depends_on": map[string]any{"type": "array", "items": text},
				},
			}},
			"success_criteria": map[string]any{"type": "array", "items": text}, "risks": map[string]any{"type": "array", "items": text},
		}),
		complete,
	}
}
