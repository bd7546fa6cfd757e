package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call walks a simple command.
func (w *walker) call(c *syntax.CallExpr, in value, r redirected) value {
	before := len(w.out.Commands)
	if len(c.Args) == 0 {
		out := known("")
		for _, a := range c.Assigns {
			w.assign(a)
			if noted(a.Name.Value) {
				w.emit(Command{Args: []Word{word("export"), word(a.Name.Value + "=" + w.vars[a.Name.Value].Str)}})
			}
			v := w.vars[a.Name.Value]
			w.reaches(a.Name.Value, value{text: v.Str, known: !v.unsure})
		}
		if r.stdin != nil && len(c.Assigns) == 0 {
			out = *r.stdin
		}
		if len(r.reads) > 0 || len(r.writes) > 0 {
			w.emit(Command{Args: []Word{word(":")}, Reads: r.reads, Writes: r.writes})
		}
		return out
	}
	var env []string
	var undo []func()
	for _, a := range c.Assigns {
		v, name := w.literal(a.Value), a.Name.Value
		env = append(env, name+"="+v.text)
		exported := w.exported
		w.reaches(name, v)
		w.exported = exported // it is for this command only
		old, had := w.vars[name]
		undo = append(undo, func() {
			delete(w.vars, name)
			if had {
				w.vars[name] = old
			}
		})
	}
	w.drawn = nil
	args := w.words(c.Args)
	for _, a := range c.Assigns {
		// The words were expanded without the assignments; the command that runs has
		// them.
		w.assign(a)
	}
	defer func() {
		for _, fn := range undo {
			fn()
		}
	}()
	if len(args) == 0 {
		return known("")
	}
	return w.run(args, in, r, env, append(w.since(before), w.drawn...))
}

// noted reports whether a variable changes what the shell or other programs do.
func noted(name string) bool {
	return strings.HasPrefix(name, "HIST") || strings.HasPrefix(name, "LD_") || name == "PROMPT_COMMAND" || name == "BASH_ENV" || name == "ENV"
}

func (w *walker) emit(c Command) int {
	if len(w.out.Commands) >= maxCommands {
		w.unclear("it comes to more than %d commands", maxCommands)
		return len(w.out.Commands) - 1
	}
	if c.Line == 0 {
		if c.Line = w.cur; w.line > 0 {
			c.Line = w.line
		}
	}
	c.Dir, c.links, c.home = w.dir, w.links, w.home
	c.Given = c.Given || w.exported
	if c.Within == 0 {
		c.Within = w.within
	}
	c.Via, c.Host, c.Background = slices.Clone(w.via), w.host, c.Background || w.back
	if w.out.Commands == nil {
		w.out.Commands = make([]Command, 0, max(1, w.room))
	}
	w.out.Commands = append(w.out.Commands, c)
	return len(w.out.Commands) - 1
}

// under walks what another program runs.
func (w *walker) under(via string, fn func() value) (out value) {
	w.nested(func() {
		within := w.within
		w.within = 0
		w.via = append(w.via, via)
		out = fn()
		w.via = w.via[:len(w.via)-1]
		w.within = within
	})
	return out
}

// run walks a command with its words, and returns its output.
func (w *walker) run(args []Word, in value, r redirected, env []string, from []int) value {
	name := ""
	before := w.now
	w.now = in
	defer func() { w.now = before }()
	if args[0].Known && !args[0].Glob {
		name = base(args[0].Text)
		if to, ok := w.programs[args[0].Text]; ok {
			name, args = base(to), append([]Word{word(to)}, args[1:]...)
		} else if full := w.called(args[0].Text); full != "" {
			if b := base(full); b == "busybox" || b == "toybox" {
				full = path.Join("/bin", name) // the name decides what it does
			}
			name, args = base(full), append([]Word{word(full)}, args[1:]...)
		}
	} else if _, ok := w.content(w.abs(args[0].Text)); ok && named(args[0].Text) {
		name = base(args[0].Text)
	} else if guess := globbed(args[0]); guess != "" {
		// A wildcard that can mean little else: /bin/r? is rm.
		name, args = base(guess), append([]Word{{Text: guess, Known: true, Glob: true}}, args[1:]...)
	} else if strings.Trim(args[0].Text, holes) == "" && (w.reread > 0 || strings.Contains(args[0].Text, Hole) && len(from) > 0) {
		w.opaque("a shell runs a command that cannot be known")
	}
	if body, ok := w.funcs[args[0].Text]; ok && args[0].Known && !slices.Contains(w.calls, args[0].Text) {
		return w.function(args, body, in)
	}
	if text, ok := w.aliases[args[0].Text]; ok && args[0].Known && !slices.Contains(w.calls, "alias "+args[0].Text) {
		w.calls = append(w.calls, "alias "+args[0].Text)
		out := w.under("alias", func() value { return w.script(text+" "+quoteAll(args[1:]), nil, in) })
		w.calls = w.calls[:len(w.calls)-1]
		return out
	}
	at := w.emit(Command{
		Args: args, Reads: r.reads, Writes: r.writes, Env: env, Dup: r.dup, From: slices.Concat(in.from, from), Input: in.word(),
	})
	if len(args) == 1 && name == "exec" {
		w.persist(r)
	}
	if name != "" && (strings.Contains(args[0].Text, "/") || len(w.running) > 0 && slices.Contains(w.running, w.abs(args[0].Text))) {
		if v, ok := w.content(w.abs(args[0].Text)); ok {
			w.out.Commands[at].From = append(w.out.Commands[at].From, v.from...)
			return w.file(name, args[0], texts(args), in, at)
		}
	}
	w.within = 0
	return w.meaning(name, args, in, r, at)
}

// called returns the path of a program that the task wrote, copied or linked under this
// name; "" if there is none.
func (w *walker) called(name string) string {
	if strings.Contains(name, "/") {
		if len(w.links) == 0 {
			return ""
		}
		plain := resolve(name, w.dir, nil)
		if full := w.abs(name); full != plain {
			return full
		}
		return ""
	}
	if len(w.files)+len(w.earlier.files)+len(w.links) == 0 {
		return ""
	}
	if few := len(w.files) + len(w.earlier.files); few <= 8 && len(w.links) == 0 && !w.wrote(name) {
		return ""
	}
	dirs := environment["PATH"]
	if v, ok := w.vars["PATH"]; ok {
		dirs = v.Str
	}
	for dir := range strings.SplitSeq(dirs, ":") {
		if dir == "" || holed(dir) {
			continue
		}
		full := w.abs(dir) + "/" + name
		if full[1] == '/' || name == "" || name == "." || name == ".." {
			full = path.Clean(full)
		}
		if to := w.abs(full); to != full {
			return to
		}
		if _, ok := w.files[full]; ok {
			return full
		}
		if _, ok := w.earlier.files[full]; ok {
			return full
		}
	}
	return ""
}

// wrote reports whether a file of a name was written, in whatever folder.
func (w *walker) wrote(name string) bool {
	for file := range w.files {
		if base(file) == name {
			return true
		}
	}
	for file := range w.earlier.files {
		if base(file) == name {
			return true
		}
	}
	return false
}

// function walks a function's body with its arguments.
func (w *walker) function(args []Word, body *syntax.Stmt, in value) (out value) {
	w.nested(func() {
		before, branch := w.args, w.branch
		w.args = texts(args)
		w.calls = append(w.calls, args[0].Text)
		out = w.stmt(body, in)
		w.calls = w.calls[:len(w.calls)-1]
		w.args, w.branch = before, branch
	})
	return out
}

func texts(words []Word) []string {
	out := make([]string, len(words))
	for i, x := range words {
		out[i] = x.Text
	}
	return out
}

// quoteAll quotes words so that a shell reads them unchanged.
func quoteAll(words []Word) string {
	var b strings.Builder
	for i, x := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case holed(x.Text):
			b.WriteString(`"` + again.Replace(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`).Replace(x.Text)) + `"`)
		case x.Glob:
			b.WriteString(x.Text)
		default:
			b.WriteString("'" + strings.ReplaceAll(x.Text, "'", `'\''`) + "'")
		}
	}
	return b.String()
}

// joined returns words as eval, ssh and watch join them.
func joined(words []Word) value {
	v := known(strings.Join(texts(words), " "))
	for _, x := range words {
		v.known = v.known && x.Known
	}
	return v
}

// globbed returns the program that a wildcard in command position expands to, if it is
// one of those that matter; "" otherwise.
func globbed(x Word) string {
	if !x.Glob || holed(x.Text) {
		return ""
	}
	re := matcher(x.Text)
	if re == nil {
		return ""
	}
	if only, whole := re.LiteralPrefix(); whole && only != "" {
		return "" // it fits itself, which is the name of no program here
	}
	for _, path := range notablePaths {
		if re.MatchString(path) {
			return path
		}
	}
	return ""
}

// notablePaths are notable, by their names alone and in the folders of programs.
var notablePaths = func() (out []string) {
	for _, name := range notable {
		for _, dir := range []string{"", "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"} {
			out = append(out, dir+name)
		}
	}
	return out
}()

// notable are the programs that a wildcard is tried on.
var notable = []string{
	"rm", "dd", "sh", "bash", "dash", "zsh", "curl", "wget", "cat", "nc", "ncat", "netcat", "mkfs", "mkfs.ext4", "shred", "python3", "perl", "chmod", "chown",
	"base64", "find", "unlink", "truncate", "wipefs",
}
