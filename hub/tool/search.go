package tool

import (
	"context"
	"slices"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// toFind are the tools of agents whose MCP servers offer more tools than a model is given
// schemas of: it finds them with one and calls them with the other.
var toFind = []string{toolname.ToolSearch, toolname.CallTool}

// ToFind returns the names of the tools with which a model finds and calls tools whose
// schemas it was not given.
func ToFind() []string { return slices.Clone(toFind) }

func searchTools() []*Tool {
	return []*Tool{{
		Name: toolname.ToolSearch,
		Description: "Find tools of your MCP servers that you know only by name. Returns a description and the arguments of each tool that matches. " +
			`Call them with call_tool. Example: {"query": "create calendar event"}.`,
		Kind:     KindSearch,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_WORKER,
		Idempotent: true, ReadOnly: true, Timeout: workTimeout,
		schema: `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
			"query":{"type":"string","minLength":1,"maxLength":500,"description":"Words of what the tool is to do, or names of tools"},
			"limit":{"type":"integer","minimum":1,"maximum":10,"description":"How many at most; 5 by default"}}}`,
		// The worker's loop knows which tools it has, and executes the call.
		run: func(context.Context, Call) (Result, error) { return Result{Observation: "looked"}, nil },
	}, {
		Name: toolname.CallTool,
		Description: "Call a tool that is not in your list, and that tool_search has found. Call the tools of your list directly. " +
			`Example: {"tool": "mcp__calendar__find", "arguments": {"day": "2026-03-01"}}.`,
		Kind:     KindSearch,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_WORKER,
		Idempotent: true, ReadOnly: true, Timeout: workTimeout,
		schema: `{"type":"object","additionalProperties":false,"required":["tool","arguments"],"properties":{
			"tool":{"type":"string","minLength":1,"maxLength":128,"description":"Name of the tool"},
			"arguments":{"type":"object","description":"What the tool is called with, as tool_search described it"}}}`,
		// The worker's loop makes it a call of the tool that it names, which is decided and
		// recorded as such. Only a call that names call_tool itself gets here.
		run: func(context.Context, Call) (Result, error) {
			return Result{Failed: true, Code: fault.InvalidParameters, Observation: "error: call_tool calls other tools: name one that tool_search found"}, nil
		},
	}}
}
