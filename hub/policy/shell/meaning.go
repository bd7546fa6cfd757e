package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// meaning works out what a command runs besides itself and what it does to the
// shell's state, and answers what it writes.
func (w *walker) meaning(name string, args []Word, in value, at int) value {
	rest := args[1:]
	switch name {
	case "":
		return unknown(at)
	case "chmod":
		return known("")
	case "eval":
		return w.given(at, "eval", joined(rest), nil, in)
	case ".", "source":
		if len(rest) == 0 {
			return known("")
		}
		return w.file("source", rest[0], texts(rest), in, at)
	case "trap":
		if len(rest) > 1 {
			return w.code("trap", joined(rest[:1]), nil, in)
		}
		return known("")
	case "alias":
		for _, a := range rest {
			if k, v, ok := strings.Cut(a.Text, "="); ok {
				w.aliases[k] = v
			}
		}
		return known("")
	case "set":
		if i := slices.IndexFunc(rest, func(x Word) bool { return x.Text == "--" }); i >= 0 {
			w.args = append([]string{w.args[0]}, texts(rest[i+1:])...)
		}
		return known("")
	case "shift":
		if len(w.args) > 1 {
			w.args = append([]string{w.args[0]}, w.args[2:]...)
		}
		return known("")
	case "unset":
		for _, a := range rest {
			delete(w.vars, a.Text)
		}
		return known("")
	case "export", "readonly", "declare", "typeset", "local":
		for _, a := range rest {
			if k, v, ok := strings.Cut(a.Text, "="); ok {
				w.set(k, v, a.Known)
			}
		}
		return known("")
	case "cd", "pushd":
		if dir := operand(rest); len(rest) > 0 && dir.Known {
			w.dir = w.abs(dir.Text)
		} else {
			w.dir = Workspace
		}
		return known("")
	case "hash":
		if len(rest) == 3 && rest[0].Text == "-p" {
			w.programs[rest[2].Text] = rest[1].Text
		}
		return known("")
	case "ln", "cp", "mv", "install":
		if ops := operands(rest); len(ops) == 2 && ops[0].Known && ops[1].Known {
			to := ops[1].Text
			if strings.HasSuffix(to, "/") || to == "." {
				to = path.Join(to, base(ops[0].Text))
			}
			if v := w.read(value{text: ops[0].Text, known: true}); v.known || len(v.from) > 0 {
				w.keep(w.abs(to), v)
			} else if strings.Contains(ops[0].Text, "bin/") {
				w.programs[w.abs(to)] = ops[0].Text
			}
		}
		return known("")
	case "read", "mapfile", "readarray":
		return w.readInto(rest, in)
	case "ssh":
		return w.ssh(rest, in, at)
	case "xargs", "parallel":
		return w.xargs(name, rest, in)
	case "find", "fd", "fdfind":
		return w.find(name, rest, in, at)
	case "tee":
		for _, f := range operands(rest) {
			if f.Known {
				w.write(f.Text, in, slices.ContainsFunc(rest, func(x Word) bool { return x.Text == "-a" || x.Text == "--append" }))
			}
		}
		return in
	case "awk", "gawk", "mawk", "nawk":
		w.interpreter(at, "awk", rest, in)
		return unknown(at)
	case "git":
		return w.git(rest, in, at)
	case "tar":
		for i, a := range rest {
			for _, flag := range []string{"--checkpoint-action=exec=", "--to-command=", "--use-compress-program=", "-I="} {
				if cmd, ok := strings.CutPrefix(a.Text, flag); ok {
					w.code("tar", known(cmd), nil, in)
				}
			}
			if (a.Text == "-I" || a.Text == "--use-compress-program") && i+1 < len(rest) {
				w.code("tar", joined(rest[i+1:i+2]), nil, in)
			}
		}
		return unknown(at)
	case "printf":
		if len(rest) > 2 && rest[0].Text == "-v" {
			v := printf(rest[2:])
			w.set(rest[1].Text, v.text, v.known)
			return known("")
		}
	case "crontab":
		if v := in; len(operands(rest)) == 0 || operands(rest)[0].Text == "-" {
			w.schedule(v)
		}
		return unknown(at)
	case "at", "batch":
		return w.code(name, in, nil, value{})
	}
	if lang := Language(name); lang == "shell" {
		return w.shell(name, rest, in, at)
	} else if lang != "" {
		w.interpreter(at, lang, rest, in)
		return unknown(at)
	}
	if fetches(name) {
		w.download(name, rest, at)
	}
	if inner, via, ok := unwrap(name, rest); ok {
		return w.inner(via, inner, in)
	}
	return w.filter(name, rest, in, at)
}

// again writes holes so that they are holes when they are read once more.
var again = strings.NewReplacer(Hole, "${deckhand_unknown}", Unset, "${deckhand_unset}")

// code walks a script that a command was given.
func (w *walker) code(via string, text value, args []string, in value) value {
	if !text.known || holed(text.text) {
		// With nothing in the place of what is not known it may still be read.
		w.unclear("%s runs code that cannot be known", via)
		text.text = again.Replace(text.text)
	}
	return w.under(via, func() value { return w.script(text.text, args, in) })
}

// given is code for a command that is given it as words, and notes that where it
// cannot be known.
func (w *walker) given(at int, via string, text value, args []string, in value) value {
	if !text.known || holed(text.text) {
		w.out.Commands[at].Language, w.out.Commands[at].Code = "shell", text.word()
	}
	return w.code(via, text, args, in)
}

// file walks a script file, where its content is known.
func (w *walker) file(via string, name Word, args []string, in value, at int) value {
	v := w.read(value{text: name.Text, known: name.Known && !name.Glob})
	if name.Text == "/dev/stdin" || name.Text == "-" || name.Text == "/proc/self/fd/0" {
		v = in
	}
	c := &w.out.Commands[at]
	c.From = append(c.From, v.from...)
	if !v.known {
		c.Language, c.Code = "shell", Word{Text: hole}
		if len(v.from) > 0 {
			w.unclear("%s runs what another command writes", via)
		}
		return unknown(at)
	}
	full := w.abs(name.Text)
	if slices.Contains(w.running, full) {
		if w.branch == 0 {
			w.out.Bombs = append(w.out.Bombs, full)
		}
		return unknown(at)
	}
	w.running = append(w.running, full)
	defer func() { w.running = w.running[:len(w.running)-1] }()
	if lang := shebang(v.text); lang != "" && lang != "shell" {
		c.Language, c.Code = lang, v.word()
		return unknown(at)
	}
	return w.under(via, func() value { return w.script(v.text, args, in) })
}

// shebang answers the language that a script says it is in.
func shebang(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return ""
	}
	for _, f := range strings.Fields(line) {
		if lang := Language(base(f)); lang != "" {
			return lang
		}
	}
	return ""
}

// inner walks a command that another program runs as it is.
func (w *walker) inner(via string, args []Word, in value) value {
	// NAME=value before it, as env and sudo take it.
	var env []string
	for len(args) > 0 && assignment.MatchString(args[0].Text) {
		env, args = append(env, args[0].Text), args[1:]
	}
	if len(args) == 0 {
		return known("")
	}
	return w.under(via, func() value {
		return w.run(args, value{text: in.text, known: in.known, from: in.from}, redirected{}, env, nil)
	})
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// operands are the words that are no options.
func operands(args []Word) (out []Word) {
	for i, a := range args {
		if a.Text == "--" {
			return append(out, args[i+1:]...)
		}
		if !strings.HasPrefix(a.Text, "-") || a.Text == "-" {
			out = append(out, a)
		}
	}
	return out
}

func operand(args []Word) Word {
	if ops := operands(args); len(ops) > 0 {
		return ops[0]
	}
	return Word{}
}

// Language is what an interpreter of the name is given to run: "shell", "python",
// "perl", "ruby", "javascript", "php", "lua", ...; "" for what is none.
func Language(name string) string {
	name = strings.TrimRight(name, "0123456789.")
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "mksh", "fish":
		return "shell"
	case "python", "pypy", "ipython":
		return "python"
	case "perl", "ruby", "php", "lua", "tclsh", "Rscript", "julia", "groovy":
		return strings.ToLower(name)
	case "node", "nodejs", "deno", "bun":
		return "javascript"
	}
	return ""
}

// shell walks a shell that is run: with -c, a file, or what it reads.
func (w *walker) shell(name string, rest []Word, in value, at int) value {
	flag := false
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		switch {
		case a == "--":
			rest = rest[i+1:]
			if len(rest) == 0 {
				return w.stdin(name, in, at)
			}
			if flag {
				return w.given(at, name+" -c", joined(rest[:1]), argv(name, rest[1:]), in)
			}
			return w.file(name, rest[0], texts(rest), in, at)
		case a == "-o" || a == "+o" || a == "-O" || a == "+O" || a == "--rcfile" || a == "--init-file":
			if strings.HasPrefix(a, "--") && i+1 < len(rest) {
				w.file(name, rest[i+1], nil, in, at)
			}
			i++
		case strings.HasPrefix(a, "--"):
		case (strings.HasPrefix(a, "-") || strings.HasPrefix(a, "+")) && len(a) > 1:
			flag = flag || strings.HasPrefix(a, "-") && strings.Contains(a, "c")
			if strings.Contains(a, "s") && !flag {
				return w.stdin(name, in, at)
			}
		case flag:
			return w.given(at, name+" -c", joined(rest[i:i+1]), argv(name, rest[i+1:]), in)
		default:
			return w.file(name, rest[i], texts(rest[i:]), in, at)
		}
	}
	if flag {
		return known("")
	}
	return w.stdin(name, in, at)
}

func argv(name string, rest []Word) []string {
	if len(rest) == 0 {
		return []string{name}
	}
	return texts(rest)
}

// stdin walks a shell that reads its script.
func (w *walker) stdin(name string, in value, at int) value {
	c := &w.out.Commands[at]
	if in.known && !holed(in.text) {
		if in.text == "" {
			return known("")
		}
		return w.under(name, func() value { return w.script(in.text, nil, known("")) })
	}
	c.Language, c.Code = "shell", in.word()
	if len(in.from) > 0 || in.text != "" {
		w.unclear("%s runs what another command writes", name)
		if text := again.Replace(in.text); strings.Trim(readable.Replace(in.text), "? \n") != "" {
			// What is known of it counts.
			w.under(name, func() value { return w.script(text, nil, known("")) })
		}
	}
	return unknown(at)
}

// interpreter notes the code that an interpreter of another language is given.
func (w *walker) interpreter(at int, lang string, rest []Word, in value) {
	var parts []Word
	file, ran := Word{}, false
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		switch {
		case lang == "awk" && (a == "-f" || a == "--file"):
			i++
			ran = true
		case lang == "awk" && (a == "-v" || a == "-F"):
			i++
		case lang == "awk" && !strings.HasPrefix(a, "-"):
			parts, i = append(parts, rest[i]), len(rest)
		case lang == "python" && a == "-m":
			ran, i = true, len(rest)
		case codeFlag(lang, a) && i+1 < len(rest):
			i++
			parts = append(parts, rest[i])
		case glued(lang, a) != "":
			parts = append(parts, Word{Text: glued(lang, a), Known: rest[i].Known})
		case a == "-":
		case strings.HasPrefix(a, "-"):
		default:
			file, i = rest[i], len(rest)
		}
	}
	c := &w.out.Commands[at]
	var code value
	switch {
	case len(parts) > 0:
		code = known("")
		for _, p := range parts {
			code.text, code.known = code.text+p.Text+"\n", code.known && p.Known
		}
	case file.Text != "":
		code = w.read(value{text: file.Text, known: file.Known})
		if file.Text == "/dev/stdin" {
			code = in
		}
	case ran || lang == "awk":
		return
	default:
		code = in
		if in.text == "" && in.known {
			return
		}
	}
	c.Language, c.Code = lang, code.word()
	c.From = append(c.From, code.from...)
}

// codeFlag says that the word after an option is code.
func codeFlag(lang, a string) bool {
	switch lang {
	case "python":
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
	case "perl", "ruby":
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && (strings.HasSuffix(a, "e") || strings.HasSuffix(a, "E"))
	case "javascript":
		return a == "-e" || a == "-p" || a == "-pe" || a == "--eval" || a == "--print" || a == "eval"
	case "php":
		return a == "-r" || a == "--run" || a == "-R" || a == "-B"
	}
	return a == "-e"
}

// glued answers code that is in the same word as its option.
func glued(lang, a string) string {
	switch {
	case lang == "javascript" && strings.HasPrefix(a, "--eval="):
		return a[len("--eval="):]
	case lang == "python" && strings.HasPrefix(a, "-c") && len(a) > 2:
		return a[2:]
	case (lang == "perl" || lang == "ruby" || lang == "lua") && strings.HasPrefix(a, "-e") && len(a) > 2:
		return a[2:]
	case lang == "php" && strings.HasPrefix(a, "-r") && len(a) > 2:
		return a[2:]
	}
	return ""
}
