package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const syncTimeout = 10 * time.Minute

// SyncRequest describes what to copy between the workspace of a task and the jail that
// its agent has on another node.
type SyncRequest struct {
	// Node is the other node, by name or id.
	Node string
	// From that node, or to it.
	From      bool
	Paths     []string
	Overwrite bool
}

// SyncResult is the result of a SyncRequest.
type SyncResult struct {
	Files, Unchanged int
	Bytes            int64
	Skipped          []string
	// NodeID is the node whose workspace changed.
	NodeID    string
	Workspace *nodev1.WorkspaceChange
}

func syncTools() []*Tool {
	return []*Tool{{
		Name: toolname.WorkspaceSync,
		Description: "Copy files between your workspace and your workspace on another of your nodes, under the same paths. " +
			"Unchanged files are not sent again. If a file there has changed since you last copied it, nothing is copied and the conflict is reported. " +
			`Example: {"node": "builder-2", "direction": "to", "paths": ["src/**/*.go"]}.`,
		Kind: KindFleet, Returns: Foreign, Expected: 10 * time.Second, Retryable: true,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
		Idempotent: true, Reversible: true, Timeout: syncTimeout,
		Leaves: func(arguments map[string]any) bool { return text(arguments, "direction") != "from" },
		schema: `{"type":"object","additionalProperties":false,"required":["node","direction","paths"],"properties":{
			"node":{"type":"string","minLength":1,"maxLength":128,"description":"The name of the other node"},
			"direction":{"enum":["to","from"],"description":"to: from here to that node; from: from that node to here"},
			"paths":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"string","minLength":1,"maxLength":4096},
				"description":"Paths, relative to the workspace, or patterns such as src/**/*.go; a folder includes everything in it"},
			"overwrite":{"type":"boolean","description":"Replace files that have another content"}}}`,
		run: runSync,
	}}
}

func runSync(ctx context.Context, c Call) (Result, error) {
	s := SyncRequest{Node: text(c.Arguments, "node"), From: text(c.Arguments, "direction") == "from", Overwrite: flag(c.Arguments, "overwrite")}
	paths, _ := c.Arguments["paths"].([]any)
	for _, one := range paths {
		path, _ := one.(string)
		s.Paths = append(s.Paths, path)
	}
	done, err := c.Sync(ctx, s)
	if err != nil {
		return failure(err)
	}
	said := fmt.Sprintf("copied %d files, %d bytes; %d were there already", done.Files, done.Bytes, done.Unchanged)
	if n := len(done.Skipped); n > 0 {
		said += fmt.Sprintf("; %d cannot be copied (sockets, pipes, names that are not UTF-8): %s", n, strings.Join(done.Skipped[:min(n, 20)], " "))
	}
	return Result{
		Observation: said,
		Outcome:     map[string]any{"node": s.Node, "files": done.Files, "unchanged": done.Unchanged, "bytes": done.Bytes, "skipped": len(done.Skipped)},
		Workspace:   done.Workspace, WorkspaceNode: done.NodeID,
	}, nil
}
