// Package policy decides what an agent's calls may do: rules in YAML, of the
// organisation and of each agent, that allow, ask or deny by tool, arguments,
// shell commands, paths, hosts, category, agent, node and time. Deny beats ask
// beats allow.
//
// A shell script is taken apart into the commands it would run (package shell),
// each is decided on its own, and the strictest part wins. What cannot be
// understood asks, wherever a rule is about what is run. What is known to be
// dangerous (package danger) asks, whatever the rules allow, unless the policy
// denies it or lets its kind pass.
//
// A policy that was read never changes; every change is a new version in the
// database, so that a decision can say which one made it.
package policy

import (
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// Effect is what a rule does with a call.
type Effect string

// The effects, the weakest first. None leaves a call to the persona.
const (
	None  Effect = ""
	Allow Effect = "allow"
	Ask   Effect = "ask"
	Deny  Effect = "deny"
)

var strength = map[Effect]int{Allow: 0, None: 1, Ask: 2, Deny: 3}

// Call is what is decided.
type Call struct {
	Tool      string
	Category  string
	Arguments map[string]any
	Agent     string
	// Labels are those of the node that the call is made on.
	Labels map[string]string
	// At is when.
	At time.Time
	// Files are contents that the task has written, by absolute path.
	Files map[string]string

	script *shell.Script
}

// Decision is what came of it.
type Decision struct {
	Effect Effect `json:"effect,omitempty"`
	// Rule is the name of the rule that decided; empty for none.
	Rule string `json:"rule,omitempty"`
	// Version of the policies that decided, such as "organisation 3, agent 1".
	Version string `json:"version,omitempty"`
	// Why, for people.
	Why string `json:"why,omitempty"`
	// Command is the part of a script that the rule is about.
	Command string `json:"command,omitempty"`
	// Dangers are what was recognised; see package danger.
	Dangers []string `json:"dangers,omitempty"`
	// Answered says of an allow that people gave it as their answer to approvals:
	// it holds also where the persona asks.
	Answered bool `json:"answered,omitempty"`
}

// Limit is how often a tool, or tools of a category, may be called.
type Limit struct {
	Tool, Category string
	Calls          int
	Per            time.Duration
}

// Policy is one file, read and checked.
type Policy struct {
	// Default is what calls get that no rule is about; None for what the persona
	// says.
	Default Effect
	// Dangers are the effects of kinds of danger; Ask where there is none.
	Dangers map[danger.Kind]Effect
	// Categories of tools other than the registry's.
	Categories map[string]string
	Limits     []Limit
	Rules      []*Rule
}

// Source is a policy with what it is called in decisions.
type Source struct {
	Name string
	*Policy
}

// Set is the policies that hold for a call together.
type Set []Source

// Version names the policies of a set.
func (s Set) Version() string {
	var names []string
	for _, src := range s {
		if src.Name != "" {
			names = append(names, src.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Category answers the category of a tool: the strictest override, or the
// registry's.
func (s Set) Category(tool, registered string) string {
	for _, src := range s {
		if c, ok := src.Categories[tool]; ok {
			registered = c
		}
	}
	return registered
}

// shellTools are the tools whose argument command is a shell script.
var shellTools = map[string]bool{"shell_exec": true, "node_exec_many": true, "terminal_open": true, "terminal_write": true}

// Decide answers what a set of policies makes of a call.
func (s Set) Decide(c Call) Decision {
	if script, ok := c.Arguments["command"].(string); ok && (shellTools[c.Tool] || strings.HasPrefix(c.Tool, "shell")) {
		read := shell.Read(script, shell.Options{Files: c.Files, Dir: text(c.Arguments, "cwd")})
		c.script = &read
	}
	units := unitsOf(c)
	out := Decision{Effect: Allow, Version: s.Version()}
	var rules []*Rule
	about := false
	fallback := None
	for _, src := range s {
		if strength[src.Default] > strength[fallback] || fallback == None {
			fallback = src.Default
		}
		for _, r := range src.Rules {
			if r.applies(&c) {
				rules = append(rules, r)
				about = about || len(r.Commands)+len(r.Paths)+len(r.Hosts) > 0
			}
		}
	}
	ruled, answered := false, true
	for _, u := range units {
		d := decide(rules, u)
		answered = answered && (d.Answered || d.Rule == "")
		ruled = ruled || d.Rule != ""
		if strength[d.Effect] > strength[out.Effect] || out.Rule == "" && d.Effect == out.Effect {
			d.Version = out.Version
			out = d
		}
	}
	if !ruled && out.Effect == Allow {
		out.Effect = None
	}
	out.Answered = out.Answered && answered
	if c.script != nil && len(c.script.Unclear) > 0 && (about || fallback != None) && strength[out.Effect] < strength[Ask] {
		out = Decision{Effect: Ask, Version: out.Version, Why: "the script cannot be understood: " + strings.Join(c.script.Unclear, "; ")}
	}
	if out.Effect == None && fallback != None {
		out.Effect, out.Why = fallback, "no rule is about it, and the policy's default is "+string(fallback)
	}
	return s.dangers(c, out)
}

// Dangers answers what is known to be dangerous in a call.
func Dangers(c Call) []danger.Finding {
	if c.script != nil {
		return danger.In(*c.script)
	}
	if verb := fileVerbs[c.Tool]; verb != "" {
		var out []danger.Finding
		for _, key := range pathKeys {
			if p, ok := c.Arguments[key].(string); ok {
				out = append(out, danger.File(verb, p)...)
			}
		}
		return out
	}
	return nil
}

var fileVerbs = map[string]string{
	"file_write": "write", "file_append": "write", "file_edit": "write", "file_move": "write", "file_delete": "delete", "file_read": "read",
}

// dangers has what is dangerous asked about, or denied.
func (s Set) dangers(c Call, out Decision) Decision {
	for _, f := range Dangers(c) {
		effect := Ask
		for _, src := range s {
			if e, ok := src.Dangers[f.Kind]; ok && (strength[e] > strength[effect] || e == Allow) {
				effect = e
			}
		}
		out.Dangers = append(out.Dangers, string(f.Kind))
		if effect == Allow || strength[effect] <= strength[out.Effect] {
			continue
		}
		out.Effect, out.Rule, out.Command = effect, "dangerous:"+string(f.Kind), f.Command
		out.Why = "it is known to be dangerous: " + f.What
	}
	return out
}

func text(args map[string]any, key string) string { s, _ := args[key].(string); return s }

// decide answers the strictest of the rules for one part of a call.
func decide(rules []*Rule, u *unit) Decision {
	out := Decision{Effect: None, Command: u.label}
	if u.neutral {
		out.Effect = Allow
	}
	for _, r := range rules {
		m := r.matches(u)
		effect := r.Effect
		switch {
		case m == no, m == maybe && effect == Allow:
			continue
		case m == maybe && effect == Deny:
			effect = Ask
		}
		// An allow counts only where nothing stricter does, and of several that which
		// goes furthest.
		if effect == Allow && (out.Effect == None || out.Effect == Allow && r.Answered && !out.Answered) || strength[effect] > strength[out.Effect] && effect != Allow {
			out = Decision{Effect: effect, Rule: r.Name, Command: u.label, Why: r.why(m), Answered: r.Answered}
		}
	}
	return out
}

// NeedsLabels says that a rule looks at the labels of nodes.
func (s Set) NeedsLabels() bool {
	for _, src := range s {
		for _, r := range src.Rules {
			if len(r.Labels) > 0 {
				return true
			}
		}
	}
	return false
}

// RunsFiles says that a call runs a file of which the call itself does not say
// what is in it.
func RunsFiles(c Call) bool {
	script, ok := c.Arguments["command"].(string)
	if !ok || !shellTools[c.Tool] {
		return false
	}
	read := shell.Read(script, shell.Options{Dir: text(c.Arguments, "cwd")})
	for i := range read.Commands {
		cmd := &read.Commands[i]
		if cmd.Language != "" && !cmd.Code.Known || strings.HasPrefix(cmd.Arg(0), "./") || strings.HasPrefix(cmd.Arg(0), shell.Workspace+"/") ||
			strings.HasPrefix(cmd.Arg(0), "/tmp/") {
			return true
		}
	}
	return false
}

// Abs answers a path of a tool for files from the root.
func Abs(p string) string { return abs(p, shell.Workspace) }
