// Package shell says which simple commands a shell script would run.
//
// The script is parsed with mvdan.cc/sh and walked as bash would, without
// running anything: quotes, escapes, variables whose values the script itself
// sets, $IFS, braces, functions, aliases, loops over known words and the output
// of plain filters (echo, printf, base64 -d, tr, rev, xxd -r and the like) are
// worked out; what programs do that run other programs (sh -c, eval, env, sudo,
// timeout, xargs, find -exec, ssh, ...) is unwrapped. Every branch is taken.
//
// What cannot be known is a hole in a word. A script that cannot be read at all,
// or that is longer or deeper than the limits, says so in Unclear: whoever
// decides by Commands must ask then. Scripts are written by a model and are
// hostile: nothing here runs, opens or looks up anything of the machine.
package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxScript bounds a script in bytes, as the tool's schema does.
	maxScript = 128 << 10
	// maxCommands bounds what a script comes to; maxDepth its nesting.
	maxCommands = 2000
	maxDepth    = 24
	// maxSteps bounds the work: statements that are walked.
	maxSteps = 20_000
	// maxText bounds one value in bytes.
	maxText = 256 << 10
	// maxWords bounds the words of one command.
	maxWords = 4096
)

// What stands in a word's text for what cannot be known: runes of the private use
// area, which no program is called with.
const (
	// Hole is text that is not known, but is there.
	Hole = "\uE0F0"
	// Unset is a variable that nobody has set, as far as can be known: most often
	// nothing.
	Unset = "\uE0F1"

	hole  = Hole
	holes = Hole + Unset
)

func holed(s string) bool { return strings.ContainsAny(s, holes) }

// Word is one word of a command, as the program would get it.
type Word struct {
	// Text has a Hole or Unset wherever something cannot be known.
	Text string
	// Known says that Text is exactly what the program gets, but for Glob.
	Known bool
	// Glob says that Text has wildcards which the shell would fill in.
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
	// Host is where it runs, when that is elsewhere (ssh).
	Host string
	// Env are the variables that it gets, as NAME=value.
	Env []string
	// Language and Code are set of a program that is given code to run, such as
	// python -c; the code may have holes. Language is "shell" for a shell whose
	// script cannot be known.
	Language string
	Code     Word
	// From are the commands, by index, whose output it reads or runs.
	From []int
	// Input is what it reads from its standard input, as far as that is known.
	Input Word
	// Dir is where it runs; it may have holes.
	Dir string
	// Dup says that a redirection copies another file descriptor than 1 and 2.
	Dup bool
	// Background says that nobody waits for it.
	Background bool
	// Line is that of the script, from 1.
	Line int
}

// Name is the program's name without its folders; "" where it cannot be known.
func (c *Command) Name() string {
	if len(c.Args) == 0 || !c.Args[0].Known {
		return ""
	}
	return base(c.Args[0].Text)
}

// Arg answers the text of an argument, "" past the last.
func (c *Command) Arg(i int) string {
	if i >= len(c.Args) {
		return ""
	}
	return c.Args[i].Text
}

var readable = strings.NewReplacer(Hole, "?", Unset, "?")

// String is the command as one line, holes as "?".
func (c *Command) String() string {
	words := make([]string, len(c.Args))
	for i, a := range c.Args {
		words[i] = readable.Replace(a.Text)
	}
	return strings.Join(words, " ")
}

// Script is what a script would run.
type Script struct {
	Commands []Command
	// Unclear says what cannot be understood of the script as a whole; empty for a
	// script that was read to its end.
	Unclear []string
	// Bombs are functions and files that start themselves over and over, with
	// nothing that would end it, and loops that start processes without end.
	Bombs []string
}

// Options are what is known besides the script.
type Options struct {
	// Files are contents of files that were written before, by absolute path.
	Files map[string]string
	// Dir is where the script starts; "" for /workspace.
	Dir string
}

// Read answers what a script would run.
func Read(script string, o Options) (out Script) {
	w := &walker{state: newState(o.Dir), out: &out, earlier: o.Files}
	defer func() {
		// The expander has panics for forms that it does not know.
		if r := recover(); r != nil {
			w.unclear("a form of expansion that is not understood")
		}
	}()
	w.script(script, nil, value{known: true})
	return out
}

// unclear notes what cannot be understood, once.
func (w *walker) unclear(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.out.Unclear, text) && len(w.out.Unclear) < 8 {
		w.out.Unclear = append(w.out.Unclear, text)
	}
}

// parse reads a script; nil when it cannot be read.
func (w *walker) parse(script string) *syntax.File {
	switch {
	case len(script) > maxScript:
		w.unclear("a script of %d bytes is longer than %d", len(script), maxScript)
		return nil
	case holed(script):
		w.unclear("code that cannot be known")
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		w.unclear("it is no valid shell: %v", err)
		return nil
	}
	w.bombs(file)
	return file
}

// base answers a path's last part.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
