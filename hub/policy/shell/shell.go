// Package shell determines which simple commands a shell script would run. Read parses a
// script and returns a Script with its Commands.
//
// The script is parsed with mvdan.cc/sh and walked as bash would, without running
// anything: quotes, escapes, variables whose values the script itself sets, $IFS, braces,
// functions, aliases, loops over known words and the output of plain filters (echo,
// printf, base64 -d, tr, rev, xxd -r and the like) are evaluated; programs that run other
// programs (sh -c, eval, env, sudo, timeout, xargs, find -exec, ssh, ...) are unwrapped.
// Every branch is taken.
//
// An unknown part of a word is a hole. A script that cannot be read, or that exceeds the
// limits, is described in Unclear: a caller that decides by Commands must then require an
// approval. Scripts are written by a model and are hostile: this package never runs,
// opens or looks up anything on the machine.
package shell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxScript bounds a script in bytes, as the tool's schema does.
	maxScript = 128 << 10
	// maxCommands bounds what a script comes to; maxDepth its nesting.
	maxCommands = 2000
	// usualCommands is up to how many there is room for from the beginning.
	usualCommands = 8
	maxDepth      = 24
	// maxSteps bounds the work: statements that are walked.
	maxSteps = 20_000
	// maxText bounds one value in bytes.
	maxText = 256 << 10
	// maxWords is the highest number of words of one command.
	maxWords = 4096
)

// The text that represents an unknown part of a word: runes of the private use area,
// which no program is called with.
const (
	// Hole is text that is not known, but is there.
	Hole = "\uE0F0"
	// Unset is a variable that is set by nothing that is known: it is usually empty.
	Unset = "\uE0F1"

	hole  = Hole
	holes = Hole + Unset
)

// holed reports whether a text contains a Hole or an Unset. Their first byte is rare in
// other text.
func holed(s string) bool { return strings.IndexByte(s, hole[0]) >= 0 && strings.ContainsAny(s, holes) }

// Word is one word of a command, as the program would get it.
type Word struct {
	// Text contains a Hole or Unset for each unknown part.
	Text string
	// Known reports that Text is exactly what the program gets, except for Glob.
	Known bool
	// Glob reports that Text has wildcards which the shell would expand.
	Glob bool
}

func word(text string) Word { return Word{Text: text, Known: !holed(text)} }

// Command is a simple command that a script would run.
type Command struct {
	// Args begin with the program.
	Args []Word
	// Reads and Writes are the files of its redirections.
	Reads, Writes []Word
	// Via is what runs it, outermost first, such as "sudo" or "find -exec"; empty
	// for the script itself.
	Via []string
	// Host is the remote host that runs the command (ssh); "" for the jail itself.
	Host string
	// Env are the variables assigned before the command, as NAME=value.
	Env []string
	// Given reports that the command gets variables which the script has exported.
	Given bool
	// Within is one more than the index of the command whose words contain this one
	// unchanged and that runs it, as env and npx do; 0 for none.
	Within int
	// Language and Code are set of a program that is given code to run, such as
	// python -c; the code may have holes. Language is "shell" for a shell whose
	// script cannot be known.
	Language string
	Code     Word
	// From are the commands whose output it reads or runs: their indexes among
	// Commands, or -1-i for Script.Earlier[i].
	From []int
	// Input is what the command reads from its standard input, as far as that is known.
	Input Word
	// Dir is the command's working directory; it may have holes.
	Dir string
	// Dup reports that a redirection copies a file descriptor other than 1 and 2.
	Dup bool
	// Background reports that the script does not wait for the command.
	Background bool
	// Line is that of the script, from 1.
	Line int
	// links are the symbolic links that the script has made by then.
	links map[string]string
	// home is the home of who runs it; "" for /workspace.
	home string
}

// Abs returns a path that the command names, from the root: its folder and the
// links that the script made are followed.
func (c *Command) Abs(name string) string { return resolve(name, c.Dir, c.links) }

// Follows reports whether the script has made symbolic links by then, which Abs
// follows.
func (c *Command) Follows() bool { return len(c.links) > 0 }

// Name returns the program's name without its folders; "" if it is unknown.
func (c *Command) Name() string {
	if len(c.Args) == 0 || !c.Args[0].Known {
		return ""
	}
	return base(c.Args[0].Text)
}

// Arg returns the text of an argument, "" past the last.
func (c *Command) Arg(i int) string {
	if i >= len(c.Args) {
		return ""
	}
	return c.Args[i].Text
}

var readable = strings.NewReplacer(Hole, "?", Unset, "?")

// String is the command as one line, holes as "?".
func (c *Command) String() string {
	var b strings.Builder
	n := len(c.Args)
	for _, a := range c.Args {
		n += len(a.Text)
	}
	b.Grow(n)
	for i, a := range c.Args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if holed(a.Text) {
			b.WriteString(readable.Replace(a.Text))
		} else {
			b.WriteString(a.Text)
		}
	}
	return b.String()
}

// Script is what a script would run.
type Script struct {
	Commands []Command
	// Unclear lists what could not be understood of the script as a whole; it is empty
	// for a script that was read to its end.
	Unclear []string
	// Opaque are those of Unclear that require an approval even if no rule is about what
	// is run: a shell is given unknown text.
	Opaque []string
	// Earlier are commands of earlier scripts that made what this one runs.
	Earlier []Command
	// After is what is known of files once the script has run.
	After Record
	// Bombs are functions and files that start themselves over and over, with
	// nothing that would end it, and loops that start processes without end.
	Bombs []string
}

// Options is what is known besides the script.
type Options struct {
	// Before is what is known of files that were written before.
	Before Record
	// Now reads files that were changed in ways that the commands do not show; nil if
	// that is not possible.
	Now Look
	// Dir is the script's working directory; "" for /workspace.
	Dir string
	// Home is the home of who runs the script; "" for /workspace.
	Home string
}

// Look looks into files that were changed before a script, by whatever.
type Look interface {
	// Names are those that are known to have been changed, by their paths from the
	// root.
	Names() []string
	// Text returns the current content of such a file. known is false if the content was
	// known and no longer is; ok is false for a file that was not changed, and for any
	// other without text.
	Text(name string) (text string, known, ok bool)
}

// Read returns what a script would run.
func Read(script string, o Options) Script {
	r, _ := readings.Get().(*reading)
	r.walker.state, r.out, r.earlier, r.looks = &r.first, &r.found, o.Before, o.Now
	r.first.begin(o.Dir)
	r.first.home = cmp.Or(o.Home, Workspace)
	r.first.links = o.Before.links
	r.walker.whole(script)
	found := r.found
	*r = reading{}
	readings.Put(r)
	return found
}

// reading is a walker with its first state and what it finds.
type reading struct {
	walker
	first state
	found Script
}

// readings are kept to be used again; nothing of one outlasts Read.
var readings = sync.Pool{New: func() any { return new(reading) }}

// whole walks the script that Read is given.
func (w *walker) whole(script string) {
	defer func() {
		// The expander has panics for forms that it does not know.
		if r := recover(); r != nil {
			w.opaque("a form of expansion that is not understood")
		}
	}()
	w.script(script, nil, value{known: true})
	w.outTo = nil
	w.flush(0, nil)
	w.out.After = w.record()
}

// opaque notes what cannot be understood and is run all the same.
func (w *walker) opaque(format string, args ...any) {
	if text := w.unclear(format, args...); !slices.Contains(w.out.Opaque, text) && len(w.out.Opaque) < 8 {
		w.out.Opaque = append(w.out.Opaque, text)
	}
}

// unclear records what cannot be understood, once, and returns the message.
func (w *walker) unclear(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(w.out.Unclear, text) && len(w.out.Unclear) < 8 {
		w.out.Unclear = append(w.out.Unclear, text)
	}
	return text
}

// parsers are kept: making one costs as much as reading a short script.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// parse reads a script; nil when it cannot be read.
func (w *walker) parse(script string) *syntax.File {
	switch {
	case len(script) > maxScript:
		w.opaque("a script of %d bytes is longer than %d", len(script), maxScript)
		return nil
	case holed(script):
		w.opaque("code that cannot be known")
		return nil
	}
	parser, _ := parsers.Get().(*syntax.Parser)
	file, err := parser.Parse(strings.NewReader(script), "")
	parsers.Put(parser)
	if err != nil {
		w.opaque("it is no valid shell: %v", err)
		return nil
	}
	if mayBomb(script) {
		w.bombs(file)
	}
	if w.room == 0 {
		w.room = max(1, room(file.Stmts, usualCommands))
	}
	return file
}

// room returns how many simple commands a list has, those of pipes and lists
// counted, up to a number.
func room(list []*syntax.Stmt, most int) (n int) {
	for _, s := range list {
		if n >= most {
			break
		}
		n++
		for c, ok := s.Cmd.(*syntax.BinaryCmd); ok; c, ok = c.X.Cmd.(*syntax.BinaryCmd) {
			n++
		}
	}
	return min(n, most)
}

// base returns a path's last part.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
