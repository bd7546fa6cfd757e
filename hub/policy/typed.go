package policy

import (
	"path"
	"slices"
	"strings"

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

// typed returns the call that runs, as a script, the text which a call types into a
// program; false if the call types none, or if the program only reads data.
func (c Call) typed() (Call, bool) {
	typed, ok := c.Arguments["text"].(string)
	if !ok || c.Tool != toolname.JobInput || c.ReadsData {
		return c, false
	}
	if strings.HasSuffix(typed, `\`) {
		typed = strings.TrimSuffix(typed, `\`) + shell.Hole // the line goes on in the next call
	}
	c.Tool, c.Arguments = toolname.ShellExec, map[string]any{"command": typed}
	return c, true
}
