package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// Deferred tools are known to the model by their names, which the system prompt lists. It
// finds their schemas with tool_search and calls them with call_tool: so the tools of a
// request never change, and what the provider has cached behind them stays valid.

const (
	toolFind = toolname.ToolSearch
	toolVia  = toolname.CallTool
	// foundByDefault is the default maximum number of tools that a search
	// returns.
	foundByDefault = 5
)

// find returns the deferred tools that fit a call of tool_search, best first.
func (r *run) find(arguments string) []*deckhandv1.Tool {
	var asked struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}
	if json.Unmarshal([]byte(arguments), &asked) != nil {
		return nil
	}
	if asked.Limit <= 0 {
		asked.Limit = foundByDefault
	}
	words := strings.FieldsFunc(strings.ToLower(asked.Query), func(c rune) bool { return strings.ContainsRune(" ,;\n\t\"'()", c) })
	type hit struct {
		tool  *deckhandv1.Tool
		score int
	}
	var hits []hit
	for _, tool := range r.cfg.Claim.GetTools() {
		if !tool.GetDeferred() {
			continue
		}
		name, about := strings.ToLower(tool.GetName()), strings.ToLower(tool.GetDescription())
		score := 0
		for _, word := range words {
			switch {
			case name == word:
				score += 100
			case strings.Contains(name, word):
				score += 3
			case strings.Contains(about, word):
				score++
			}
		}
		if score > 0 {
			hits = append(hits, hit{tool, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return b.score - a.score })
	var out []*deckhandv1.Tool
	for _, h := range hits[:min(len(hits), asked.Limit)] {
		out = append(out, h.tool)
	}
	return out
}

// describe renders the tools that a search found for the model.
func describe(found []*deckhandv1.Tool) string {
	if len(found) == 0 {
		return "no tool fits: use words of its name, or other ones of what it does"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Call them with %s: the name as its tool, and the arguments as its arguments.\n", toolVia)
	for _, tool := range found {
		fmt.Fprintf(&out, "\n%s: %s\narguments: %s\n", tool.GetName(), tool.GetDescription(), wire.Schema(tool))
	}
	return out.String()
}

// unwrap turns the calls that a model made through call_tool into calls of the tools that
// it named. A call whose arguments are not those of call_tool stays as it is, and is
// rejected.
func unwrap(turn *deckhandv1.Turn) {
	for _, call := range model.Calls(turn) {
		var via wire.Via
		if call.GetName() != toolVia || json.Unmarshal([]byte(call.GetArgumentsJson()), &via) != nil || via.Tool == "" || via.Tool == toolVia {
			continue
		}
		if call.Name, call.Via, call.ArgumentsJson = via.Tool, toolVia, string(via.Arguments); len(via.Arguments) == 0 {
			call.ArgumentsJson = "{}"
		}
	}
}

// atOnce returns the tools that the model can see from the beginning.
func atOnce(tools []*deckhandv1.Tool) []*deckhandv1.Tool {
	return slices.DeleteFunc(slices.Clone(tools), (*deckhandv1.Tool).GetDeferred)
}

// deferred returns the names of the others.
func deferred(tools []*deckhandv1.Tool) []string {
	var out []string
	for _, tool := range tools {
		if tool.GetDeferred() {
			out = append(out, tool.GetName())
		}
	}
	return out
}
