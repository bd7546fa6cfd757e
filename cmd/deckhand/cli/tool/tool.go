// Package tool is the command "deckhand tool": the registry of tools that agents may
// call, and what calls of them would get from an agent.
package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand tool".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("tool", "Show the tools that agents may call", `
The registry of this hub: each tool with its kind, category, least role and schema.
With --agent, also what a call would get from that agent: allowed, asked about or
denied, by which rule, or missing where its persona does not list the tool.
`, `
deckhand tool list --kind web
deckhand tool list --agent log-triage --listed
deckhand tool show shell_exec
deckhand tool show shell_exec --agent cleaner --arguments '{"command":"rm -r build"}'
`)
	cmd.AddCommand(listCommand(e), showCommand(e))
	return cmd
}

// word returns the name of an enum's value without its prefix, in lower case.
func word(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

func kindOf(x *deckhandv1.ToolEntry) string {
	return word(x.GetTool().GetKind().String(), "TOOL_KIND_")
}

// kinds returns the kinds of tools in words.
func kinds() (out []string) {
	for number := range int32(len(deckhandv1.ToolKind_name)) { //nolint:gosec // a handful
		if number > 0 {
			out = append(out, word(deckhandv1.ToolKind_name[number], "TOOL_KIND_"))
		}
	}
	return out
}

// parseKind returns the kind that a flag names.
func parseKind(cmd *cobra.Command, text string) (deckhandv1.ToolKind, error) {
	if text == "" {
		return deckhandv1.ToolKind_TOOL_KIND_UNSPECIFIED, nil
	}
	if !slices.Contains(kinds(), text) {
		return 0, env.Usage(cmd, "--kind %q is no kind of tools: use one of %s", text, strings.Join(kinds(), ", "))
	}
	return deckhandv1.ToolKind(deckhandv1.ToolKind_value["TOOL_KIND_"+strings.ToUpper(text)]), nil
}

// asks says when a person has to approve a call.
func asks(x *deckhandv1.ToolEntry) string {
	switch x.GetTool().GetConfirmation() {
	case deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_ALWAYS:
		return "always"
	case deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_SUPERVISED:
		return "in supervised mode"
	}
	return "never"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// category returns what the agent's policies make of the tool's category.
func category(x *deckhandv1.ToolEntry) string {
	own := word(x.GetTool().GetCategory().String(), "TOOL_CATEGORY_")
	if x.GetUse() == nil || x.GetUse().GetCategory() == x.GetTool().GetCategory() {
		return own
	}
	return fmt.Sprintf("%s (policy: %s)", own, word(x.GetUse().GetCategory().String(), "TOOL_CATEGORY_"))
}

func undo(x *deckhandv1.ToolEntry) string {
	switch t := x.GetTool(); {
	case t.GetReadOnly():
		return "changes nothing"
	case t.GetReversible():
		return "yes"
	default:
		return "not: " + t.GetIrreversible()
	}
}

func schema(x *deckhandv1.ToolEntry) string {
	data, err := json.MarshalIndent(x.GetTool().GetInputSchema().AsMap(), "", "  ")
	if err != nil {
		return "" // came from JSON
	}
	return string(data)
}

// rule returns the rule that decided, with the version of its policy.
func rule(x *deckhandv1.ToolEntry) string {
	d := x.GetUse().GetDecision()
	if d.GetRule() == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s)", d.GetRule(), d.GetVersion())
}

func noun(agent bool) output.Noun[*deckhandv1.ToolEntry] {
	type entry = *deckhandv1.ToolEntry
	columns := []output.Column[entry]{
		{Header: "name", Value: func(x entry) string { return x.GetTool().GetName() }},
		{Header: "kind", Value: kindOf},
		{Header: "category", Value: category},
		{Header: "least role", Value: func(x entry) string { return x.GetTool().GetLeastRole() }},
		{Header: "asks", Value: asks},
		{Header: "runs in", Wide: true, Value: func(x entry) string { return word(x.GetTool().GetPlace().String(), "TOOL_PLACE_") }},
		{Header: "expected", Wide: true, Value: func(x entry) string {
			if d := x.GetTool().GetExpectedDuration().AsDuration(); d > 0 {
				return d.String()
			}
			return "at once"
		}},
		{Header: "timeout", Wide: true, Value: func(x entry) string { return x.GetTool().GetTimeout().AsDuration().String() }},
		{Header: "idempotent", Wide: true, Value: func(x entry) string { return yes(x.GetTool().GetIdempotent()) }},
		{Header: "retryable", Wide: true, Value: func(x entry) string { return yes(x.GetTool().GetRetryable()) }},
		{Header: "undo", Wide: true, Value: undo},
		{Header: "your role covers it", Alone: true, Value: func(x entry) string { return yes(x.GetRoleCovers()) }},
	}
	if agent {
		columns = append(columns,
			output.Column[entry]{Header: "agent gets", Value: func(x entry) string { return x.GetUse().GetEffect() }},
			output.Column[entry]{Header: "why", Wide: true, Value: func(x entry) string { return x.GetUse().GetWhy() }},
			output.Column[entry]{Header: "rule", Alone: true, Value: rule},
			output.Column[entry]{Header: "for the call", Alone: true, Value: entry.GetArgumentsJson},
		)
	}
	return output.Noun[entry]{Name: func(x entry) string { return x.GetTool().GetName() }, Columns: append(columns,
		output.Column[entry]{Header: "description", Block: true, Value: func(x entry) string { return x.GetTool().GetDescription() }},
		output.Column[entry]{Header: "schema", Block: true, Value: schema},
	)}
}
