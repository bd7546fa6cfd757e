package httprule

import (
	"fmt"
	"slices"
	"strings"
)

// Effect is what becomes of a request that a rule matches.
type Effect int

// The effects, in the order in which they win over each other: the zero value is
// the safe one.
const (
	// Deny refuses the request.
	Deny Effect = iota
	// UseTool refuses the request and names a tool for it, whose calls can wait
	// for an approval.
	UseTool
	// Allow lets the request pass.
	Allow
)

// String returns the effect as a word.
func (e Effect) String() string {
	switch e {
	case Deny:
		return "deny"
	case UseTool:
		return "use tool"
	case Allow:
		return "allow"
	}
	return fmt.Sprintf("effect %d", int(e))
}

// Rule gives requests an effect.
type Rule struct {
	Pattern
	Effect Effect
	// Tool is the name of the tool to use instead; for UseTool only.
	Tool string
}

// Decision says what becomes of a request.
type Decision struct {
	Effect Effect
	// Rule is the text of the rule that decided; "" if none matched.
	Rule string
	// Tool is the tool to use instead; for UseTool only.
	Tool string
	// Reason says why a request is refused, for the agent and for a person; ""
	// for Allow.
	Reason string
	// Suggestion is the text of a rule that would allow the request, if that is
	// all that is missing; else "".
	Suggestion string
}

// Decide applies rules to a request. Their order does not matter: a rule that
// denies wins over one that requires a tool, and that over one that allows. What
// no rule allows is denied.
//
// operations are the types of the request's GraphQL operations, as Operations
// returns them; nil if the request was not read as GraphQL. Each of them must be
// allowed by some rule, and one that is denied denies the request. A rule that
// names operations denies a request that was not read: see NeedsOperations.
func Decide(rules []Rule, method string, path Path, operations []string) Decision {
	if !validMethod(method) {
		return Decision{Reason: fmt.Sprintf("%.40q is not a method in upper-case letters", method)}
	}
	for _, effect := range []Effect{Deny, UseTool} {
		for _, r := range rules {
			// An effect that is not known is taken for the safe one.
			if (r.Effect == effect || effect == Deny && r.Effect != UseTool && r.Effect != Allow) && r.Touches(method, path) && r.hits(operations) {
				return refusal(r, effect, method, path)
			}
		}
	}
	allowed := make([]bool, len(operations))
	var unread string // a rule that could not be applied, as the operations are not known
	for _, r := range rules {
		if r.Effect != Allow || !r.Covers(method, path) {
			continue
		}
		if len(r.Operations) == 0 {
			return Decision{Effect: Allow, Rule: r.String()}
		}
		if len(operations) == 0 {
			unread = r.String()
		}
		for i, o := range operations {
			allowed[i] = allowed[i] || slices.Contains(r.Operations, o)
		}
		if len(operations) > 0 && !slices.Contains(allowed, false) {
			return Decision{Effect: Allow, Rule: r.String()}
		}
	}
	if unread != "" {
		return Decision{Reason: fmt.Sprintf("the rule %.200q allows some GraphQL operations, and the request was not read as GraphQL", unread)}
	}
	var missing []string
	for i, o := range operations {
		if !allowed[i] && !slices.Contains(missing, o) {
			missing = append(missing, o)
		}
	}
	return unmatched(method, path, missing)
}

// NeedsOperations reports whether a rule that is about the method and path names
// GraphQL operations: the request's Operations must be known to decide it, and a
// request of which they cannot be read must be refused.
func NeedsOperations(rules []Rule, method string, path Path) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return len(r.Operations) > 0 && r.Touches(method, path) })
}

// hits reports whether a rule that denies is about any of a request's operations.
func (r Rule) hits(operations []string) bool {
	return len(r.Operations) == 0 || len(operations) == 0 ||
		slices.ContainsFunc(operations, func(o string) bool { return slices.Contains(r.Operations, o) })
}

func refusal(r Rule, effect Effect, method string, path Path) Decision {
	out := Decision{Effect: effect, Rule: r.String()}
	if effect == UseTool {
		out.Tool = r.Tool
		out.Reason = fmt.Sprintf("%s %.200s is not possible from a command (rule %.200q); use the tool %s", method, path, out.Rule, r.Tool)
		return out
	}
	out.Reason = fmt.Sprintf("the rule %.200q denies %s %.200s", out.Rule, method, path)
	return out
}

func unmatched(method string, path Path, operations []string) Decision {
	out := Decision{Reason: fmt.Sprintf("no rule allows %s %.200s", method, path)}
	if len(operations) > 0 {
		out.Reason += " with the GraphQL operation " + strings.Join(operations, " or ")
	}
	if out.Suggestion = suggest(method, path, operations); out.Suggestion != "" {
		out.Reason += fmt.Sprintf("; a rule that would allow it is %q", out.Suggestion)
	}
	return out
}

// maxSuggestion is the length of the longest rule that is suggested.
const maxSuggestion = 300

// suggest returns the text of a rule that covers a request; "" for one that is
// too long to be of use, and for the zero path.
func suggest(method string, path Path, operations []string) string {
	if len(path.segments) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(method + " ")
	for i, escaped := range strings.Split(path.raw[1:], "/") {
		out.WriteByte('/')
		if path.segments[i].slash {
			out.WriteString("{name" + slashMark + "}")
		} else {
			out.WriteString(strings.ReplaceAll(escaped, "*", "%2A"))
		}
	}
	if len(operations) > 0 {
		out.WriteString(" " + strings.Join(operations, ","))
	}
	if out.Len() > maxSuggestion {
		return ""
	}
	return out.String()
}
