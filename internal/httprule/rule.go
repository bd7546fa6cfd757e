package httprule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// toolName is the form of a tool's name.
var toolName = regexp.MustCompile(`^[a-z][A-Za-z0-9_-]{0,127}$`)

// ParseRule reads a rule as a persona has it: its effect and a pattern.
//
//	allow GET /repos/{owner}/{repo}/**
//	deny DELETE /**
//	tool http_post POST /deployments
func ParseRule(text string) (Rule, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Rule{}, errors.New(`the rule is empty; write it like "allow GET /repos/{owner}/{repo}/**"`)
	}
	var out Rule
	switch words[0] {
	case "allow":
		out.Effect = Allow
	case "deny":
		out.Effect = Deny
	case "tool":
		if len(words) < 2 || !toolName.MatchString(words[1]) {
			return Rule{}, errors.New(`after "tool" comes the name of the tool to use instead; write it like "tool http_post POST /deployments"`)
		}
		out.Effect, out.Tool, words = UseTool, words[1], words[1:]
	default:
		return Rule{}, fmt.Errorf(`the rule begins with %.40q, which is neither allow, deny nor tool; write it like "allow GET /repos/{owner}/{repo}/**"`, words[0])
	}
	var err error
	out.Pattern, err = Parse(strings.Join(words[1:], " "))
	return out, err
}

// For returns rules as they are for the requests of a tool's own call: what they leave to that
// tool is allowed. No rules are changed.
func For(rules []Rule, tool string) []Rule {
	if tool == "" {
		return rules
	}
	out := slices.Clone(rules)
	for i, r := range out {
		if r.Effect == UseTool && r.Tool == tool {
			out[i].Effect, out[i].Tool = Allow, ""
		}
	}
	return out
}

// Text returns the rule as ParseRule reads it.
func (r Rule) Text() string {
	switch r.Effect {
	case Allow:
		return "allow " + r.String()
	case UseTool:
		return "tool " + r.Tool + " " + r.String()
	case Deny:
	}
	return "deny " + r.String()
}
