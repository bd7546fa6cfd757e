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

// Origin says who may have written the text in a tool's results.
type Origin int

// The origins.
const (
	// Own is text of the hub, of people of the organisation, or of the workspace.
	Own Origin = iota
	// Fetched is the output of programs, which have text that anybody may have written if they
	// have network access.
	Fetched
	// Foreign is text that anybody may have written: pages, documents, logs, files of machines, answers of
	// servers.
	Foreign
)

// Untrusted reports whether the tool's results may have text that anybody may have written, for
// a task whose commands have network access, or none.
func (t *Tool) Untrusted(network bool) bool {
	return t.Returns == Foreign || t.Returns == Fetched && network
}
