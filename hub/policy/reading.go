package policy

import "github.com/deckhand-sh/deckhand/hub/policy/danger"

// Reading is what was understood of a call, for the person who decides about it.
type Reading struct {
	// Dangers are all that were recognised, in the order of the script.
	Dangers []danger.Finding `json:"dangers,omitempty"`
	// Commands are the simple commands of a script, after pipes, nested shells and
	// encoded payloads were taken apart.
	Commands []Command `json:"commands,omitempty"`
	// Unclear lists what could not be understood.
	Unclear []string `json:"unclear,omitempty"`
}

// Command is one simple command of a script.
type Command struct {
	Text string `json:"text"`
	// Line is that of the script, from 1.
	Line int `json:"line"`
	// Via is what runs it, outermost first.
	Via []string `json:"via,omitempty"`
	// Effect is what the rules decide about the command alone; None if no rule is about
	// it.
	Effect Effect `json:"effect,omitempty"`
	// Rule is the rule that decides about it; empty without one.
	Rule string `json:"rule,omitempty"`
}

// maxRead is how many commands of a script are listed, and maxCommandText the length of
// each in bytes: the script itself is shown whole beside them.
const (
	maxRead        = 500
	maxCommandText = 2000
)

// Read returns what a set of policies understands of a call, or of the text that it types
// into a program.
func (s Set) Read(c Call) Reading {
	out := Reading{}
	parts, _ := Parts(c) // one that cannot be read is refused
	for _, part := range parts {
		out.Dangers = append(out.Dangers, Dangers(part)...)
	}
	if typed, ok := c.typed(); ok {
		c = typed
	}
	c.read()
	out.Dangers = append(out.Dangers, Dangers(c)...)
	if c.script == nil {
		return out
	}
	out.Unclear = c.script.Unclear
	rules, _, _ := s.applicable(&c)
	for i, d := range decideAll(rules, unitsOf(c, rules)) {
		if i >= len(c.script.Commands) || i == maxRead {
			break
		}
		command := &c.script.Commands[i]
		one := Command{Text: command.String(), Line: command.Line, Via: command.Via}
		if len(one.Text) > maxCommandText {
			one.Text = one.Text[:maxCommandText] + "..."
		}
		if d.Rule != "" {
			one.Effect, one.Rule = d.Effect, d.Rule
		}
		out.Commands = append(out.Commands, one)
	}
	return out
}
