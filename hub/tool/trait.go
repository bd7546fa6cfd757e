package tool

import deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"

// Kind is what a tool is about.
type Kind = deckhandv1.ToolKind

// The kinds of tools.
const (
	KindSearch        = deckhandv1.ToolKind_TOOL_KIND_SEARCH
	KindFile          = deckhandv1.ToolKind_TOOL_KIND_FILE
	KindWeb           = deckhandv1.ToolKind_TOOL_KIND_WEB
	KindAnalysis      = deckhandv1.ToolKind_TOOL_KIND_ANALYSIS
	KindCommunication = deckhandv1.ToolKind_TOOL_KIND_COMMUNICATION
	KindWork          = deckhandv1.ToolKind_TOOL_KIND_WORK
	KindFleet         = deckhandv1.ToolKind_TOOL_KIND_FLEET
)

// LeastRole returns the least role that a task's submitter needs for calls of the tool, by the
// table that decides it for each call.
func (t *Tool) LeastRole() string {
	for _, role := range []string{"basic", "advanced"} {
		if Covers(role, t.Category) {
			return role
		}
	}
	return "admin"
}

// Confirmation returns when a person has to approve a call, if neither the persona nor a
// policy says otherwise. ApprovalReason decides it for a persona.
func (t *Tool) Confirmation() deckhandv1.ToolConfirmation {
	switch {
	case t.Category >= deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS:
		return deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_ALWAYS
	case t.Place == deckhandv1.ToolPlace_TOOL_PLACE_WORKER, t.Category <= deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE && !t.Acts:
		return deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_NEVER
	}
	return deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_SUPERVISED
}

// Untrusted returns the names of the tools whose results have text that anybody may have
// written: those for the web and for what people outside sent, and with network also those that
// run commands, which may fetch it.
func (r *Registry) Untrusted(network bool) (names []string) {
	for _, name := range r.Names() {
		t := r.tools[name]
		if t.Kind == KindWeb || network && (t.runs || t.Kind == KindFleet) {
			names = append(names, name)
		}
	}
	return names
}
