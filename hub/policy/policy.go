// Package policy decides what an agent's calls may do: rules in YAML, of the organisation
// and of each agent, that allow, ask or deny by tool, arguments, shell commands, paths,
// hosts, category, agent, node and time. Deny beats ask, and ask beats allow. Parse reads
// a Policy, a Set decides a Call, and Service stores the versions.
//
// A shell script is split into the commands that it would run (package shell); each is
// decided on its own, and the strictest decision wins. If a script cannot be understood,
// the call requires an approval, provided that a rule is about what is run. Known dangers
// (package danger) require an approval whatever the rules allow, unless the policy denies
// them or allows their kind.
//
// A parsed policy is immutable. Every change is a new version in the database, so that a
// decision can name the versions that made it.
package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/toolname"
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
	// Written is what is known of the files that the task has written.
	Written shell.Record
	// Now reads files that the task changed by other means; nil if that is not possible.
	Now shell.Look
	// Mode is the persona's.
	Mode string
	// Undoable reports that a snapshot of the workspace can restore what the call changes
	// or deletes, and AffectedFiles how many files that are; 0 if it is unknown.
	Undoable      bool
	AffectedFiles int
	// Program is the command line of the job that the call types into.
	Program string
	// Line is what was typed into a terminal since its last line; see Typed.
	Line string
	// PageHost is the host of the page that a call of the browser is about; "" if it is not
	// known.
	PageHost string
	// Folders are those of a machine that a call on the machine itself may write.
	Folders []string

	script *shell.Script
}

// Decision is the decision on a call.
type Decision struct {
	Effect Effect `json:"effect,omitempty"`
	// Rule is the name of the rule that decided; empty if no rule did.
	Rule string `json:"rule,omitempty"`
	// Version of the policies that decided, such as "organisation 3, agent 1".
	Version string `json:"version,omitempty"`
	// Why, for people.
	Why string `json:"why,omitempty"`
	// Command is the part of a script that the rule is about.
	Command string `json:"command,omitempty"`
	// Dangers are what was recognised; see package danger.
	Dangers []string `json:"dangers,omitempty"`
	// Answered reports that the rule that allows the call comes from people's decisions
	// on approvals: it also waives approvals that the persona requires.
	Answered bool `json:"answered,omitempty"`
	// Passkey reports that a rule which asks about the call takes a passkey to approve it.
	Passkey bool `json:"passkey,omitempty"`
}

// Limit is how often a tool, or tools of a category, may be called.
type Limit struct {
	Tool, Category string
	Calls          int
	Per            time.Duration
}

// Policy is one file, read and checked.
type Policy struct {
	// Default is the effect on calls that no rule is about; None leaves them to the
	// persona.
	Default Effect
	// Dangers are the effects of kinds of danger; Ask for a kind that is missing.
	Dangers map[danger.Kind]Effect
	// Unclear is the effect on a script with unknown text that a shell is to run; None
	// for Ask.
	Unclear Effect
	// Categories of tools other than the registry's.
	Categories map[string]string
	Limits     []Limit
	Rules      []*Rule
}

// Source is a policy with its name in decisions.
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

// SourceOf returns the name of the policy that has a rule; "" if none has.
func (s Set) SourceOf(rule string) string {
	for _, src := range s {
		if slices.ContainsFunc(src.Rules, func(r *Rule) bool { return rule != "" && r.Name == rule }) {
			return src.Name
		}
	}
	return ""
}

// Category returns the category of a tool: the strictest override, or the
// registry's.
func (s Set) Category(tool, registered string) string {
	for _, src := range s {
		if c, ok := src.Categories[tool]; ok {
			registered = c
		}
	}
	return registered
}

// read takes the script of a call apart, once.
func (c *Call) read() {
	script, ok := c.Arguments["command"].(string)
	switch {
	case !ok || c.script != nil:
		return
	case slices.Contains(onMachine, c.Tool):
		c.readMachine(script)
		return
	case c.Tool != toolname.ShellExec:
		return
	}
	read := shell.Read(script, shell.Options{Before: c.Written, Now: c.Now, Dir: text(c.Arguments, "cwd")})
	c.script = &read
}

// applicable returns the rules that are about a call, whether one of them is about what
// its script runs, and the effect if no rule decides. What allows calls in general was written
// for jails: on a machine, only a rule that names the tool allows anything.
func (s Set) applicable(c *Call) (rules []*Rule, about bool, fallback Effect) {
	machine := slices.Contains(changesMachine, c.Tool)
	for _, src := range s {
		if d := src.Default; !(machine && d == Allow) && (strength[d] > strength[fallback] || fallback == None) {
			fallback = d
		}
		for _, r := range src.Rules {
			if machine && r.Effect == Allow && !r.forMachine(c.Tool) {
				continue
			}
			if r.applies(c) {
				rules = append(rules, r)
				about = about || len(r.Commands)+len(r.Paths)+len(r.Reads)+len(r.Writes)+len(r.Hosts)+len(r.NotHosts) > 0 || r.Outside
			}
		}
	}
	return rules, about, fallback
}

// Decide returns the decision of a set of policies on a call. Text that is typed into a
// program is decided as a script, too, and a patch as the calls that it stands for; the
// strictest decision wins.
func (s Set) Decide(c Call) Decision {
	d := s.decide(c)
	passkey := d.Passkey
	if jailed, ok := c.asJail(); ok {
		// Only what denies it or asks about it counts.
		if as := s.decide(jailed); strength[as.Effect] >= strength[Ask] {
			passkey = passkey || as.Passkey
			if strength[as.Effect] > strength[d.Effect] {
				as.Dangers = d.Dangers
				d = as
			}
		}
	}
	for _, other := range c.standsFor() {
		as := s.decide(other)
		passkey = passkey || as.Passkey
		as.Dangers = append(as.Dangers, d.Dangers...)
		if strength[as.Effect] > strength[d.Effect] || as.Effect == d.Effect && d.Rule == "" {
			d = as
		} else {
			d.Dangers = as.Dangers
		}
	}
	d.Passkey = passkey && d.Effect == Ask
	return d
}

func (s Set) decide(c Call) Decision {
	c.read()
	out := Decision{Effect: Allow, Version: s.Version()}
	rules, about, fallback := s.applicable(&c)
	ruled, answered, idle, passkey := false, true, c.script != nil, false
	units, at := []*unit(nil), -1
	if len(rules) > 0 || fallback != None {
		units = unitsOf(c, rules)
	}
	for i, d := range decideAll(rules, units) {
		idle = idle && units[i].neutral
		answered = answered && (d.Answered || d.Rule == "")
		ruled = ruled || d.Rule != ""
		passkey = passkey || d.Passkey
		if strength[d.Effect] > strength[out.Effect] || out.Rule == "" && d.Effect == out.Effect {
			d.Version = out.Version
			out, at = d.Decision, i
		}
	}
	if at >= 0 {
		out.Command = units[at].label()
	}
	if !ruled && out.Effect == Allow {
		out.Effect = None
	}
	out.Answered = out.Answered && answered
	// The default does not apply to a script that does nothing.
	if out.Effect == None && fallback != None && !idle {
		out.Effect, out.Why = fallback, "no rule is about it, and the policy's default is "+string(fallback)
	}
	out = s.dangers(c, out)
	if c.script != nil {
		out = s.unclear(c.script, out, about || fallback != None)
		// What a rule is about may be in what cannot be read.
		unread := len(c.script.Unclear)+len(c.script.Opaque) > 0
		passkey = passkey || unread && slices.ContainsFunc(rules, func(r *Rule) bool { return r.Passkey })
	}
	if out.Passkey = passkey && out.Effect == Ask; out.Passkey {
		out.Why += "; approving it takes a passkey"
	}
	return out
}

// unclear requires an approval for a script with unknown parts, or denies it: any such
// script if a rule is about what it runs, otherwise one that passes unknown text to a
// shell.
func (s Set) unclear(script *shell.Script, out Decision, ruled bool) Decision {
	effect, why := Ask, script.Opaque
	if len(why) > 0 {
		for _, src := range s {
			if src.Unclear != None && (strength[src.Unclear] > strength[effect] || src.Unclear == Allow) {
				effect = src.Unclear
			}
		}
	}
	if ruled && (len(why) == 0 || effect == Allow) {
		effect, why = Ask, script.Unclear
	}
	if len(why) == 0 || effect == Allow || strength[effect] <= strength[out.Effect] {
		return out
	}
	return Decision{Effect: effect, Version: out.Version, Dangers: out.Dangers, Why: "the script cannot be understood: " + strings.Join(why, "; ")}
}

// Dangers returns what is known to be dangerous in a call.
func Dangers(c Call) []danger.Finding {
	if c.script != nil {
		return danger.In(*c.script)
	}
	if c.Tool == toolname.BrowserExecuteJS {
		return danger.Page(text(c.Arguments, "expression"))
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
	toolname.HostWrite: "write", toolname.HostRead: "read",
	toolname.FileWrite: "write", toolname.FileAppend: "write", toolname.FileEdit: "write", toolname.FileMove: "write", toolname.FileDelete: "delete", toolname.FileRead: "read",
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
		if !slices.Contains(out.Dangers, string(f.Kind)) {
			out.Dangers = append(out.Dangers, string(f.Kind))
		}
		if effect == Allow || strength[effect] <= strength[out.Effect] {
			continue
		}
		out.Effect, out.Rule, out.Command = effect, "dangerous:"+string(f.Kind), f.Command
		out.Why = "it is known to be dangerous: " + f.What
	}
	return out
}

func text(args map[string]any, key string) string { s, _ := args[key].(string); return s }

// decided is the decision about one part.
type decided struct {
	Decision
	// words is how many of the command's first words a rule that allows names.
	words int
}

// decideAll returns the decisions on the parts of a call, in their order. A part that
// another one runs and contains unchanged in its own words is allowed if a rule allows
// those very words: npx eslint covers eslint.
func decideAll(rules []*Rule, units []*unit) []decided {
	out := make([]decided, len(units))
	for i, u := range units {
		d := decide(rules, u)
		if d.Effect == None && u.within > 0 && u.within <= i && u.tame && len(u.command.Env) == 0 {
			outer := units[u.within-1].command
			if by := out[u.within-1]; by.Effect == Allow && by.words > len(outer.Args)-len(u.command.Args) && len(outer.Args) > len(u.command.Args) {
				d = by
			}
		}
		out[i] = d
	}
	return out
}

// decide returns the strictest of the rules for one part of a call.
func decide(rules []*Rule, u *unit) decided {
	out := decided{Decision: Decision{Effect: None}}
	if u.neutral {
		out.Effect = Allow
	}
	passkey := false
	for _, r := range rules {
		m := r.matches(u)
		passkey = passkey || m != no && r.Passkey
		effect := r.Effect
		switch {
		case m == no, m == maybe && effect == Allow:
			continue
		case m == maybe && effect == Deny:
			effect = Ask
		}
		words := r.words(u)
		// An allow counts only where nothing stricter does, and of several that which
		// goes furthest.
		if effect == Allow && (out.Effect == None || out.Effect == Allow && (r.Answered && !out.Answered || out.Rule != "" && words > out.words)) || strength[effect] > strength[out.Effect] && effect != Allow {
			out = decided{Decision{Effect: effect, Rule: r.Name, Why: r.why(m), Answered: r.Answered || out.Answered && effect == Allow}, words}
		}
	}
	out.Passkey = passkey
	return out
}

// NeedsLabels reports whether a rule depends on the labels of nodes.
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

// NeedsAgent reports whether a rule depends on the name of the agent.
func (s Set) NeedsAgent() bool {
	return slices.ContainsFunc(s, func(src Source) bool {
		return slices.ContainsFunc(src.Rules, func(r *Rule) bool { return len(r.Agents) > 0 })
	})
}

// NeedsUndoable reports whether a rule about a tool depends on whether its calls can be
// undone.
func (s Set) NeedsUndoable(tool string) bool {
	return slices.ContainsFunc(s, func(src Source) bool {
		return slices.ContainsFunc(src.Rules, func(r *Rule) bool {
			return (r.Undoable || r.Files > 0) && (len(r.Tools) == 0 || anyGlob(r.Tools, tool))
		})
	})
}

// Abs returns a path of a tool for files from the root.
func Abs(p string) string { return abs(p, shell.Workspace) }
