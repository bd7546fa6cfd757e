package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Commands that run on a machine itself are read as scripts, like those of a jail, and rules
// of policies that deny or ask about commands of jails hold for them too. Rules that allow
// commands of jails do not: the same words do more on the machine.

// onMachine are the tools that run a script on a machine itself.
var onMachine = []string{toolname.HostExec, toolname.NodeExecMany}

// changesMachine are the tools whose calls change a machine.
var changesMachine = append([]string{toolname.HostWrite}, onMachine...)

// machineHome is where such a script begins.
const machineHome = "/root"

// OutsideHostPaths is the rule that asks about commands which write outside of the folders
// that the persona names.
const OutsideHostPaths = "dangerous:outside-host-paths"

// Machine returns the rules that a persona makes for what its agent runs on machines: its
// commands are allowed, and writes outside of its folders are asked about.
func Machine(h persona.Host) Source {
	p := &Policy{}
	allow := &Rule{Name: "host.commands", Effect: Allow, Reason: "the persona's host.commands has it", Tools: []Glob{{text: toolname.HostExec}}}
	for _, command := range h.Commands {
		var prefix []Glob
		for _, word := range strings.Fields(command) {
			g := Glob{text: word}
			if strings.ContainsAny(word, "*?") {
				var err error
				if g, err = newGlob(word, true); err != nil {
					prefix = nil // it matches nothing
					break
				}
			}
			prefix = append(prefix, g)
		}
		if len(prefix) > 0 {
			allow.Commands = append(allow.Commands, prefix)
		}
	}
	if len(allow.Commands) > 0 {
		p.Rules = append(p.Rules, allow)
	}
	ask := &Rule{
		Name: OutsideHostPaths, Effect: Ask, Reason: "it writes files outside of the persona's host.paths, whose changes cannot be undone",
		NotWrites: h.Paths, Outside: true,
	}
	for _, name := range onMachine {
		ask.Tools = append(ask.Tools, Glob{text: name})
	}
	p.Rules = append(p.Rules, ask)
	return Source{Policy: p}
}

// readMachine takes the script of a call that runs on a machine apart.
func (c *Call) readMachine(script string) {
	read := shell.Read(script, shell.Options{Dir: cmp.Or(text(c.Arguments, "cwd"), machineHome), Home: machineHome})
	c.script = &read
}

// asJail returns the call as rules for commands of jails see it, with its script as it runs on
// the machine.
func (c Call) asJail() (Call, bool) {
	if !slices.Contains(onMachine, c.Tool) {
		return c, false
	}
	c.read()
	c.Tool = toolname.ShellExec
	return c, true
}

// forMachine reports whether a rule may allow a call on a machine: it names the tool, and not a
// pattern that fits others too.
func (r *Rule) forMachine(tool string) bool {
	return slices.ContainsFunc(r.Tools, func(g Glob) bool { return g.re == nil && g.text == tool })
}

// outside returns whether a part of a call writes a file that is in none of some folders.
func outside(folders []string, files []shell.Operand) answer {
	out := no
	for _, f := range files {
		if f.Access != shell.Writes {
			continue
		}
		f.Word = settled(f.Word)
		switch {
		case isDevice(f.Text), within(folders, f.Word):
		case f.Known:
			return yes
		default:
			out = maybe
		}
	}
	return out
}

// within reports whether a path is certainly below one of some folders.
func within(folders []string, w shell.Word) bool {
	return w.Known && slices.ContainsFunc(folders, func(dir string) bool { return w.Text == dir || strings.HasPrefix(w.Text, dir+"/") })
}
