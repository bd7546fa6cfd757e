package step

import (
	"cmp"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Missing is the verdict on a call of a tool that the persona does not have.
const Missing policy.Effect = "missing"

// Verdict returns what a call would get from an agent whose policies decided so, and
// why: of the policies, the persona and the tool together, as for a call that is
// made. What only a running task has (its mode, deferred calls, earlier answers) is
// not part of it. Without arguments it is the verdict on most calls of the tool.
func Verdict(record *tool.Tool, p *persona.Persona, decided policy.Decision, arguments map[string]any) (policy.Effect, string) {
	why := cmp.Or(record.Wider(arguments), record.ApprovalReason(p))
	switch {
	case !tool.Allowed(p, record.Name) && p.MCPServerOf(record.Name) == nil:
		return Missing, fmt.Sprintf("its persona does not list %s", record.Name)
	case decided.Effect == policy.Deny:
		return decided.Effect, decided.Why
	case record.AdminDecides != "":
		return policy.Ask, why
	case decided.Effect == policy.Ask:
		return decided.Effect, decided.Why
	case why != "" && decided.Effect == policy.Allow && !policyMayWaive(record, p):
		return policy.Ask, why
	case decided.Effect == policy.Allow:
		return policy.Allow, decided.Why
	case why != "":
		return policy.Ask, why
	}
	return policy.Allow, ""
}
