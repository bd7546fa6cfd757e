package policy

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Text that is typed into a program which runs already can do what a command does: the
// program may be a shell. It is therefore decided as a script, too, unless all that the
// program does with its input is to read data.

// readers are programs that do nothing with their input but read it as data, whatever it
// says. Programs that can run commands (sed, awk, xargs) or write files of any name (tee)
// are not among them.
var readers = []string{
	"cat", "grep", "egrep", "fgrep", "rg", "sort", "uniq", "wc", "head", "tail", "cut", "tr", "tac", "rev", "nl", "fold", "fmt", "paste", "column", "comm", "join",
	"jq", "base64", "base32", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "cksum", "b2sum", "od", "xxd", "hexdump", "gzip", "gunzip", "zcat", "bzip2", "xz",
	"true", "false", "test", "[", "sleep", "echo", "printf",
}

// ReadsData reports whether all programs of a script are known to read their input as
// data only, so that it does not matter what is typed into them.
func ReadsData(script string) bool {
	read := shell.Read(script, shell.Options{})
	if len(read.Commands) == 0 || len(read.Opaque)+len(read.Unclear) > 0 {
		return false
	}
	for i := range read.Commands {
		cmd := &read.Commands[i]
		folder := path.Dir(cmd.Arg(0))
		if !slices.Contains(readers, cmd.Name()) || folder != "." && folder != "/bin" && folder != "/usr/bin" || strings.HasPrefix(cmd.Arg(0), "./") || len(cmd.Env) > 0 || cmd.Host != "" {
			return false
		}
		for _, w := range cmd.Writes {
			if cmd.Path(w).Text != "/dev/null" && cmd.Path(w).Text != "/dev/stdout" && cmd.Path(w).Text != "/dev/stderr" {
				return false // what is typed would be the file's content
			}
		}
	}
	return true
}

// stops stands for a key that stops a program or ends its input. It leaves an empty line
// empty.
const stops = "\x03"

// Typed returns what the arguments of a call of terminal_write add to the line that is typed
// there. A key that edits the line, such as an arrow key, is a Hole: what the line is after
// it, only the program knows.
func Typed(arguments map[string]any) string {
	var line strings.Builder
	for _, r := range text(arguments, "text") {
		switch {
		case r == '\n' || r == '\r':
			line.WriteByte('\n')
		case unicode.IsControl(r):
			line.WriteString(shell.Hole)
		default:
			line.WriteRune(r)
		}
	}
	for _, key := range stringsOf(arguments["keys"]) {
		switch key {
		case "enter", "ctrl-j", "ctrl-m":
			line.WriteByte('\n')
		case "ctrl-c", "ctrl-d", "ctrl-l", "ctrl-z":
			line.WriteString(stops)
		default:
			line.WriteString(shell.Hole)
		}
	}
	return line.String()
}

// Shown returns a text that was typed, for people: each key that is not a character is [key].
func Shown(typed string) string {
	return strings.NewReplacer(shell.Hole, "[key]", stops, "[key]").Replace(typed)
}

// Unfinished returns the last line of a text that was typed: a program runs it when it gets
// the line's end.
func Unfinished(typed string) string {
	return strings.TrimLeft(typed[strings.LastIndexByte(typed, '\n')+1:], stops)
}

// finished returns the lines of a text that was typed which have an end.
func finished(typed string) (script string, ok bool) {
	lines := strings.Split(typed, "\n")
	lines = lines[:len(lines)-1]
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(strings.TrimLeft(line, stops), stops, shell.Hole)
	}
	return strings.Join(lines, "\n"), len(lines) > 0
}

// typed returns the call that runs, as a script, the text which a call types into a
// program, or the command line that it starts on a terminal. False if there is none, or if
// the program only reads data.
func (c Call) typed() (Call, bool) {
	var script string
	switch {
	case c.Tool == toolname.TerminalOpen:
		as := c
		as.Tool = toolname.ShellExec
		return as, true
	case c.Tool == toolname.JobInput:
		typed, ok := c.Arguments["text"].(string)
		if !ok {
			return c, false
		}
		script = typed
	case c.Tool == toolname.TerminalWrite:
		lines, ok := finished(c.Line + Typed(c.Arguments))
		if !ok {
			return c, false // nothing runs it yet
		}
		script = lines
	default:
		return c, false
	}
	if ReadsData(c.Program) {
		return c, false
	}
	if strings.HasSuffix(script, `\`) {
		script = strings.TrimSuffix(script, `\`) + shell.Hole // the line goes on in the next call
	}
	c.Tool, c.Arguments = toolname.ShellExec, map[string]any{"command": script}
	return c, true
}
