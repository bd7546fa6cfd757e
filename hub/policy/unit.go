package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// unit is one part of a call: a simple command, or the whole call.
type unit struct {
	command *shell.Command
	args    map[string]any
	files   []shell.Operand
	hosts   []shell.Word
	// settled are the words with variables empty that the script does not set.
	settled []shell.Word
	// tame reports that the part redirects output only to the workspace.
	tame bool
	// neutral parts do nothing of their own.
	neutral bool
	// within is one more than the index of the part that runs this one and contains it
	// unchanged in its own words.
	within int
}

// pathKeys and hostKeys are the arguments of tools that are paths and addresses;
// changedKeys those of paths that the tool changes.
var (
	pathKeys    = []string{"path", "from", "to", "source", "target", "destination", "paths", "file", "files", "cwd", "folder"}
	hostKeys    = []string{"url", "host", "address", "urls"}
	changedKeys = map[string][]string{
		toolname.HostWrite: {"path"},
		toolname.FileWrite: {"path"}, toolname.FileAppend: {"path"}, toolname.FileEdit: {"path"}, toolname.FileDelete: {"path"}, toolname.FileMove: {"from", "to"},
	}
)

// neutral are programs that do nothing but run another, which is decided too, or
// change nothing outside the script.
var neutral = []string{
	"timeout", "nohup", "nice", "ionice", "time", "command", "builtin", "stdbuf", "setsid", "eval", "xargs", "cd", "pushd", "popd", "true", "false", ":", "set", "shift", "local", "test", "[", "wait", "exit", "return",
	"break", "continue", "read", "trap", "declare", "typeset", "export", "readonly", "unset", "mapfile", "readarray", "sleep", "let", "shopt", "getopts", "hash", "type", "umask", "exec", "env",
}

// wants reports which parts of a call some rules examine.
type wants struct{ files, hosts bool }

func wantsOf(rules []*Rule) (w wants) {
	for _, r := range rules {
		w.files = w.files || len(r.Paths)+len(r.Reads)+len(r.Writes) > 0 || r.Outside
		w.hosts = w.hosts || len(r.Hosts)+len(r.NotHosts) > 0
	}
	return w
}

func unitsOf(c Call, rules []*Rule) []*unit {
	if c.script == nil {
		return []*unit{unitOfTool(c)}
	}
	out, w := make([]*unit, 0, len(c.script.Commands)+1), wantsOf(rules)
	folders := jailFolders
	if slices.Contains(onMachine, c.Tool) {
		folders = c.Folders
	}
	for i := range c.script.Commands {
		out = append(out, unitOfCommand(&c.script.Commands[i], c.Arguments, w, folders))
	}
	if len(out) == 0 {
		out = append(out, &unit{args: c.Arguments, command: &shell.Command{}})
	}
	return out
}

func unitOfTool(c Call) *unit {
	u := &unit{args: c.Arguments}
	for _, key := range pathKeys {
		if key == "target" && toolname.IsBrowser(c.Tool) {
			continue // an element of a page
		}
		access := shell.Reads
		if slices.Contains(changedKeys[c.Tool], key) {
			access = shell.Writes
		} else if changedKeys[c.Tool] == nil && fileVerbs[c.Tool] == "" {
			access = shell.Either
		}
		for _, s := range stringsOf(c.Arguments[key]) {
			u.files = append(u.files, shell.Operand{Word: shell.Word{Text: abs(s, shell.Workspace), Known: true}, Access: access, Tree: c.Arguments["recursive"] == true || c.Tool == toolname.FileMove})
		}
	}
	for _, key := range hostKeys {
		for _, s := range stringsOf(c.Arguments[key]) {
			h := shell.HostOf(s)
			if h == "" && key == "host" {
				h = s
			}
			if h != "" {
				u.hosts = append(u.hosts, shell.Word{Text: h, Known: true})
			}
		}
	}
	if len(u.hosts) == 0 && toolname.IsBrowser(c.Tool) {
		// What the page that is open belongs to.
		u.hosts = append(u.hosts, shell.Word{Text: cmp.Or(c.PageHost, shell.Hole), Known: c.PageHost != ""})
	}
	return u
}

// unitOfCommand returns the unit of a command that may write to some folders.
func unitOfCommand(cmd *shell.Command, args map[string]any, wants wants, folders []string) *unit {
	u := &unit{command: cmd, args: args, within: cmd.Within, tame: true, settled: cmd.Args}
	for i, a := range cmd.Args {
		if s := settled(a); s != a {
			if &u.settled[0] == &cmd.Args[0] {
				u.settled = slices.Clone(cmd.Args)
			}
			u.settled[i] = s
		}
	}
	for _, w := range cmd.Writes {
		u.tame = u.tame && tame(cmd.Path(w), folders)
	}
	if wants.files {
		u.files = filesOf(cmd)
	}
	if wants.hosts {
		u.hosts = shell.Hosts(cmd)
		if cmd.Host != "" {
			u.hosts = append(u.hosts, shell.Word{Text: cmd.Host, Known: !strings.ContainsAny(cmd.Host, shell.Hole+shell.Unset)})
		}
	}
	name := cmd.Name()
	shellWithScript := shell.Language(name) == "shell" && cmd.Language == "" && len(cmd.Args) > 1
	u.neutral = u.tame && (slices.Contains(neutral, name) || shellWithScript) && (len(cmd.Env) == 0 || slices.Contains(neutral, name))
	return u
}

// filesOf returns the files that a command reads and writes, as far as its words, its
// redirections and its code show.
func filesOf(cmd *shell.Command) []shell.Operand {
	out := shell.Files(cmd)
	for _, r := range cmd.Reads {
		out = append(out, shell.Operand{Word: cmd.Path(r), Access: shell.Reads})
	}
	for _, w := range cmd.Writes {
		out = append(out, shell.Operand{Word: cmd.Path(w), Access: shell.Writes})
	}
	if cmd.Language == "" || cmd.Language == "shell" || cmd.Code.Text == "" {
		return out
	}
	named, written := danger.Files(cmd.Language, cmd.Code.Text)
	for _, p := range named {
		out = append(out, shell.Operand{Word: cmd.Path(shell.Word{Text: p, Known: true}), Access: shell.Either})
	}
	for _, p := range written {
		out = append(out, shell.Operand{Word: cmd.Path(shell.Word{Text: p, Known: true}), Access: shell.Writes})
	}
	return out
}

// jailFolders are the folders to which a command of a jail may redirect its output.
var jailFolders = []string{shell.Workspace, "/tmp"}

// tame reports whether a file that is written by redirection is below one of some folders, or
// is a device without effect.
func tame(w shell.Word, folders []string) bool {
	if isDevice(w.Text) {
		return true
	}
	return w.Known && slices.ContainsFunc(folders, func(dir string) bool { return strings.HasPrefix(w.Text, dir+"/") })
}

// isDevice reports whether a path is a device that it does no harm to write to.
func isDevice(name string) bool {
	return strings.HasPrefix(name, "/dev/fd/") || name == "/dev/null" || name == "/dev/stdout" || name == "/dev/stderr" || name == "/dev/tty"
}

// maxLabel is how many bytes of a command or a preview are shown.
const maxLabel = 200

// label is the part as it is named in decisions.
func (u *unit) label() string {
	if u.command == nil {
		return ""
	}
	return textcut.Bytes(u.command.String(), maxLabel, "...")
}

func stringsOf(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

func abs(p, dir string) string {
	if strings.HasPrefix(p, "/") {
		return path.Clean(p)
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(shell.Workspace, rest)
	}
	return path.Join(dir, p)
}
