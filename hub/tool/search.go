package tool

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Search finds tools whose schemas a model was not given.
const Search = toolname.ToolSearch

func searchTools() []*Tool {
	return []*Tool{{
		Name: Search,
		Description: "Find tools of your MCP servers that you know by name only. What fits is described in the answer, " +
			"and is among your tools from your next turn on.",
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_WORKER,
		Idempotent: true, ReadOnly: true, Timeout: workTimeout,
		schema: `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
			"query":{"type":"string","minLength":1,"maxLength":500,"description":"Words of what the tool is to do, or names of tools"},
			"limit":{"type":"integer","minimum":1,"maximum":10,"description":"How many at most; 5 by default"}}}`,
		// The worker's loop knows which tools it has, and executes the call.
		run: func(context.Context, Call) (Result, error) { return Result{Observation: "looked"}, nil },
	}}
}
