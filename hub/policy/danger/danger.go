// Package danger recognises calls that are known to be dangerous: wiping a machine or its
// disks, fork bombs, running code from elsewhere unseen, reverse shells, reading of
// credentials, wiping of histories and logs, persistence on a machine, and changes of its
// kernel or of the permissions on its roots.
//
// It judges the commands that a script would run (package shell), not its spelling, and
// inspects code that is passed to interpreters. Its findings lead to an approval and a
// record; they are no security boundary, the jail is. A program that the agent wrote and
// compiled is not inspected.
package danger

import (
	"path"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Kind is what sort of danger it is.
type Kind string

// The kinds.
const (
	Wipe         Kind = "wipe"
	Device       Kind = "device"
	ForkBomb     Kind = "fork_bomb"
	RemoteCode   Kind = "remote_code"
	HiddenCode   Kind = "hidden_code"
	Credentials  Kind = "credentials"
	History      Kind = "history"
	Logs         Kind = "logs"
	ReverseShell Kind = "reverse_shell"
	Persistence  Kind = "persistence"
	Permissions  Kind = "permissions"
	Kernel       Kind = "kernel"
	Escape       Kind = "escape"
	PageRequest  Kind = "page_request"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		Wipe, Device, ForkBomb, RemoteCode, HiddenCode, Credentials, History, Logs, ReverseShell, Persistence, Permissions, Kernel, Escape, PageRequest,
	}
}

// Finding is one danger of a call.
type Finding struct {
	Kind Kind `json:"kind"`
	// What describes the effect.
	What string `json:"what"`
	// Command is the part that does it, at most 200 bytes.
	Command string `json:"command,omitempty"`
	// Line of the script, from 1.
	Line int `json:"line"`
}

// finder collects findings of a script.
type finder struct {
	script shell.Script
	found  []Finding
	// seen are the findings of this script and of those that hold it, as they were
	// first noted. They are kept in noted of the outermost.
	seen  *[]Finding
	noted []Finding
}

func newFinder(script shell.Script) *finder {
	f := &finder{script: script}
	f.seen = &f.noted
	return f
}

// maxFindings is how many findings are reported for one script. Hiding a line among
// thousands of others gains nothing, since each finding requires an approval.
const maxFindings = 100

// In returns what is dangerous in a script that was read.
func In(script shell.Script) []Finding {
	f := newFinder(script)
	for _, name := range script.Bombs {
		f.add(ForkBomb, nil, "%s starts itself, or others, without end", name)
	}
	for i := range script.Commands {
		f.command(&script.Commands[i])
	}
	f.shells()
	return f.found
}

// Code returns what is dangerous in code of a language; see shell.Language.
func Code(language, text string, line int) []Finding {
	f := newFinder(shell.Script{})
	f.code(language, text, &shell.Command{Line: line, Args: []shell.Word{{Text: language, Known: true}}})
	return f.found
}

// File returns what is dangerous in writing, reading or deleting a file, by tools
// for files.
func File(verb, name string) []Finding {
	f := newFinder(shell.Script{})
	name = clean(name, shell.Workspace)
	c := &shell.Command{Line: 1, Args: []shell.Word{{Text: verb, Known: true}, {Text: name, Known: true}}}
	switch verb {
	case "read":
		secretFinder{f}.secret(c, name)
	case "delete":
		f.deleted(c, name, true)
	default:
		f.written(c, name)
	}
	return f.found
}

// maxCommand is how many bytes of a command a finding has.
const maxCommand = 200

// add notes a finding, once for each line and way of saying it.
func (f *finder) add(kind Kind, c *shell.Command, format string, args ...any) {
	finding := Finding{Kind: kind, What: sprintf(format, args...), Line: 1}
	if c != nil {
		finding.Command, finding.Line = textcut.Bytes(c.String(), maxCommand, "..."), c.Line
		if len(c.Via) > 0 {
			finding.What += " (by " + strings.Join(c.Via, ", ") + ")"
		}
	}
	if len(*f.seen) >= maxFindings || slices.Contains(*f.seen, finding) {
		return
	}
	*f.seen = append(*f.seen, finding)
	f.found = append(f.found, finding)
}

// command checks one simple command.
func (f *finder) command(c *shell.Command) {
	for _, r := range c.Reads {
		secretFinder{f}.secret(c, at(c, r))
	}
	for _, r := range c.Writes {
		f.written(c, at(c, r))
	}
	secretFinder{f}.environment(c)
	f.remote(c)
	if strings.Contains(c.Input.Text, "fork") && cBomb.MatchString(c.Input.Text) {
		f.add(ForkBomb, c, "its code starts processes without end")
	}
	if c.Language != "" && c.Language != "shell" && c.Code.Text != "" {
		f.code(c.Language, spaced(c.Code.Text), c)
	}
	name := c.Name()
	if name == "" {
		return
	}
	f.deletes(c, name)
	f.devices(c, name)
	secretFinder{f}.secrets(c, name)
	secretFinder{f}.covers(c, name)
	f.stays(c, name)
	f.rights(c, name)
	f.kernel(c, name)
	f.connects(c, name)
}

// at returns a word of a command as a clean absolute path. Unset variables count as
// empty, other unknown parts as some text.
func at(c *shell.Command, w shell.Word) string {
	if strings.Trim(w.Text, shell.Unset) == "" {
		return ""
	}
	return clean(c.Abs(fill(w.Text)), c.Dir)
}

// filled puts something instead of what is not known, and nothing in that of
// what is not set.
var filled = strings.NewReplacer(shell.Unset, "", shell.Hole, "unknown")

func fill(text string) string { return replaced(filled, text) }

// spacing puts a space instead of what is not known of code.
var spacing = strings.NewReplacer(shell.Hole, " ", shell.Unset, "")

func spaced(code string) string { return replaced(spacing, code) }

// replaced is for replacers of what is not known, which is in few texts: none of
// them has another byte that Hole begins with.
func replaced(r *strings.Replacer, text string) string {
	if strings.IndexByte(text, shell.Hole[0]) < 0 {
		return text
	}
	return r.Replace(text)
}

// proc is a process's own view of the file system.
var proc = compile(`^/proc/(?:[0-9]+|self|thread-self|unknown)/(?:task/[^/]+/)?(root|cwd)(/.*)?$`)

// hostRoots are the paths at which containers usually mount the machine's root.
var hostRoots = []string{"/host", "/hostfs", "/rootfs", "/mnt/host", "/mnt/root"}

func clean(text, dir string) string {
	text = fill(text)
	if text == "" {
		return ""
	}
	if !strings.HasPrefix(text, "/") {
		text = fill(dir) + "/" + text
	}
	text = path.Clean(text)
	// The root by other names.
	for range 4 {
		if !strings.HasPrefix(text, "/proc/") {
			break
		}
		m := proc.FindStringSubmatch(text)
		if m == nil {
			break
		}
		if text = path.Clean("/" + m[2]); m[1] == "cwd" {
			text = path.Clean(fill(dir) + m[2])
		}
	}
	for _, prefix := range hostRoots {
		if rest, ok := strings.CutPrefix(text, prefix); ok && rest == "" {
			return "/"
		} else if ok && rest[0] == '/' {
			text = rest
		}
	}
	return text
}

// eachOperand calls fn for each of a command's operands, with its number from 0.
func eachOperand(c *shell.Command, fn func(i int, a shell.Word)) (n int) {
	options := true
	for _, a := range c.Args[1:] {
		switch {
		case options && a.Text == "--":
			options = false
		case !options || !strings.HasPrefix(a.Text, "-") || a.Text == "-":
			fn(n, a)
			n++
		}
	}
	return n
}

// operands returns a command's words that are neither options nor its name.
func operands(c *shell.Command) (out []shell.Word) {
	for i, a := range c.Args[1:] {
		if a.Text == "--" {
			return append(out, c.Args[i+2:]...)
		}
		if !strings.HasPrefix(a.Text, "-") || a.Text == "-" {
			if out == nil {
				out = make([]shell.Word, 0, len(c.Args)-1-i)
			}
			out = append(out, a)
		}
	}
	return out
}

// option reports whether a command has an option, by its letter or by its name.
func option(c *shell.Command, letter byte, names ...string) bool {
	for _, a := range c.Args[1:] {
		t := a.Text
		if t == "--" {
			return false
		}
		if strings.HasPrefix(t, "--") {
			name, _, _ := strings.Cut(t, "=")
			for _, n := range names {
				if name == n || len(name) > 4 && strings.HasPrefix(n, name) {
					return true
				}
			}
		} else if letter != 0 && strings.HasPrefix(t, "-") && strings.IndexByte(t, letter) > 0 {
			return true
		}
	}
	return false
}

func has(c *shell.Command, words ...string) bool {
	for _, a := range c.Args[1:] {
		for _, w := range words {
			if a.Text == w {
				return true
			}
		}
	}
	return false
}

// comesFrom reports whether what a command reads or runs is made by another, near or
// far, for which fn holds.
func (f *finder) comesFrom(c *shell.Command, fn func(*shell.Command) bool) bool {
	seen := map[int]bool{}
	todo := c.From
	for len(todo) > 0 {
		i := todo[0]
		todo = todo[1:]
		if seen[i] || i >= len(f.script.Commands) || i < -len(f.script.Earlier) {
			continue
		}
		seen[i] = true
		from := (*shell.Command)(nil)
		if i >= 0 {
			from = &f.script.Commands[i]
		} else {
			from = &f.script.Earlier[-1-i]
		}
		if from != c {
			if fn(from) {
				return true
			}
			todo = append(todo, from.From...)
		}
	}
	return false
}
