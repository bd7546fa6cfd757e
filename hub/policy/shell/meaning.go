package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// meaning determines what a command runs besides itself and how it changes the shell's
// state, and returns its output.
func (w *walker) meaning(name string, args []Word, in value, r redirected, at int) value {
	rest := args[1:]
	w.conventions(name, rest, at)
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
		if ops := operands(rest); len(ops) > 1 && ops[0].Text != "-" && ops[0].Text != "" {
			return w.code("trap", joined(ops[:1]), nil, in)
		}
		return known("")
	case "alias":
		for _, a := range rest {
			if k, v, ok := strings.Cut(a.Text, "="); ok {
				put(&w.aliases, k, v)
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
			w.subscript(a.Text)
			delete(w.vars, a.Text)
		}
		return known("")
	case "export", "readonly", "declare", "typeset", "local":
		for _, a := range rest {
			if k, v, ok := strings.Cut(a.Text, "="); ok {
				w.subscript(k)
				w.set(k, v, a.Known)
				w.reaches(k, value{text: v, known: a.Known})
			}
		}
		return known("")
	case "let", "test", "[":
		for i, a := range rest {
			if name == "let" || i > 0 && (rest[i-1].Text == "-v" || strings.HasPrefix(rest[i-1].Text, "-") && len(rest[i-1].Text) == 3) || i+1 < len(rest) && len(rest[i+1].Text) == 3 && strings.HasPrefix(rest[i+1].Text, "-") {
				w.subscript(a.Text)
			}
		}
		return known("")
	case "cd", "pushd", "popd":
		dir, before := operand(rest), w.dir
		switch {
		case len(rest) > 0 && rest[0].Text == "-" || name == "popd":
			w.dir = w.before
		case len(operands(rest)) == 0:
			w.dir = w.home
		case dir.Known && !dir.Glob:
			w.dir = w.abs(dir.Text)
		case strings.HasPrefix(dir.Text, Hole) || strings.HasPrefix(dir.Text, Unset):
			w.dir = path.Join(Workspace, hole)
		default:
			w.dir = w.abs(dir.Text)
		}
		w.before = before
		return known("")
	case "hash":
		if len(rest) == 3 && rest[0].Text == "-p" {
			put(&w.programs, rest[2].Text, rest[1].Text)
		}
		return known("")
	case "ln", "cp", "mv", "install", "link":
		w.copies(name, rest, at)
		return known("")
	case "mkfifo", "mknod":
		for _, a := range operands(rest) {
			if a.Known {
				w.keep(w.abs(a.Text), unknown(at))
			}
		}
		return known("")
	case "read", "mapfile", "readarray":
		return w.readInto(name, rest, in)
	case "ssh":
		return w.ssh(rest, in, at)
	case "xargs", "parallel":
		return w.xargs(name, rest, in, at)
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
	case "printf":
		if len(rest) > 2 && rest[0].Text == "-v" {
			w.subscript(rest[1].Text)
			v := printf(rest[2:])
			w.set(rest[1].Text, v.text, v.known)
			return known("")
		}
	case "crontab":
		if ops := operands(rest); len(ops) == 0 || ops[0].Text == "-" {
			w.schedule(in)
		} else if v, ok := w.content(w.abs(ops[0].Text)); ok {
			w.schedule(v)
		}
		return unknown(at)
	case "at", "batch":
		return w.code(name, in, nil, value{})
	}
	w.hosts(name, rest, in, at)
	if lang := Language(name); lang == "shell" {
		return w.shell(name, rest, in, at)
	} else if lang != "" {
		w.interpreter(at, lang, rest, in)
		return unknown(at)
	}
	w.brings(name, rest, in, at)
	if out, ok := w.wrap(name, rest, in, r, at); ok {
		return out
	}
	return w.filter(name, rest, in, at)
}

// again writes holes so that they are holes when they are read once more.
var again = strings.NewReplacer(Hole, "${deckhand_unknown}", Unset, "${deckhand_unset}")

// code walks a script that a command was given.
func (w *walker) code(via string, text value, args []string, in value) value {
	if !text.known || holed(text.text) {
		// Unknown parts are arguments of the command, or whole commands.
		if strings.Contains(text.text, Hole) || !text.known && !holed(text.text) {
			w.unclear("%s runs code that cannot be known", via)
		}
		text.text = again.Replace(text.text)
		w.reread++
		defer func() { w.reread-- }()
	}
	return w.under(via, func() value { return w.script(text.text, args, in) })
}

// given walks code that is passed to a command in its words, and records if it is
// unknown.
func (w *walker) given(at int, via string, text value, args []string, in value) value {
	if !text.known || holed(text.text) {
		w.out.Commands[at].Language, w.out.Commands[at].Code = "shell", text.word()
	}
	return w.code(via, text, args, in)
}

// file walks a script file, if its content is known.
func (w *walker) file(via string, name Word, args []string, in value, at int) value {
	v := w.read(value{text: name.Text, known: name.Known && !name.Glob})
	if name.Text == "-" {
		v = in
	}
	c := &w.out.Commands[at]
	c.From = append(c.From, v.from...)
	if !name.Known || name.Glob {
		w.anyOf(name, at)
		c = &w.out.Commands[at]
	}
	if !v.known {
		w.foreign = w.foreign || via == "source" && len(v.from) > 0
		c.Language, c.Code = "shell", Word{Text: hole}
		if len(v.from) > 0 && !v.plain {
			w.opaque("%s runs a file that this task wrote, and whose content cannot be known", via)
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
	if lang := languageOf(full, v.text); lang != "" && lang != "shell" {
		c.Language, c.Code = lang, v.word()
		w.imports(at, lang, path.Dir(full), v.text)
		return unknown(at)
	}
	return w.under(via, func() value { return w.script(v.text, args, in) })
}

// anyOf walks the files of the task that a name may mean which is not known, such
// as those that find and wildcards find.
func (w *walker) anyOf(name Word, at int) {
	pattern := w.abs(name.Text)
	w.each(func(file string) bool {
		return !slices.Contains(w.running, file) && (!name.Glob || holed(pattern) || Matches(pattern, file))
	}, func(file string, v value) {
		lang := languageOf(file, v.text)
		if lang == "" {
			return
		}
		w.running = append(w.running, file)
		if lang == "shell" && v.known {
			w.under("file", func() value { return w.script(v.text, nil, known("")) })
		} else if lang != "shell" {
			w.evaluateCode(at, lang, file, v)
		}
		w.running = w.running[:len(w.running)-1]
	})
}

// languageOf returns the language of a file that is run.
func languageOf(name, text string) string {
	if lang := shebang(text); lang != "" || strings.HasPrefix(text, "#!") {
		return lang
	}
	switch path.Base(name) {
	case "Rakefile", "Gemfile", "Vagrantfile", "Guardfile", "Fastfile", "Podfile", "Brewfile":
		return "ruby"
	}
	return extensions[path.Ext(name)]
}

// extensions are the languages of files by their names.
var extensions = map[string]string{
	".sh": "shell", ".bash": "shell", ".py": "python", ".pl": "perl", ".pm": "perl", ".rb": "ruby", ".rake": "ruby", ".gemspec": "ruby", ".js": "javascript", ".cjs": "javascript", ".mjs": "javascript", ".ts": "javascript",
	".php": "php", ".lua": "lua", ".awk": "awk", ".tcl": "tclsh", ".r": "rscript", ".R": "rscript", ".jl": "julia", ".groovy": "groovy",
}

// shebang returns the language that a script's first line names.
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
func (w *walker) inner(via string, args []Word, in value, r redirected, at int) value {
	// NAME=value before it, as env and sudo take it.
	var env []string
	for len(args) > 0 && assignment.MatchString(args[0].Text) {
		k, v, _ := strings.Cut(args[0].Text, "=")
		w.reaches(k, value{text: v, known: args[0].Known})
		env, args = append(env, args[0].Text), args[1:]
	}
	if len(args) == 0 {
		return known("")
	}
	return w.under(via, func() value {
		before := w.within
		w.within = at + 1
		out := w.run(args, value{text: in.text, known: in.known, from: in.from, plain: in.plain}, r, env, nil)
		w.within = before
		return out
	})
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(?:%%|\(\))?=`)

// operands returns the words that are not options.
func operands(args []Word) (out []Word) {
	for i, a := range args {
		if a.Text == "--" {
			return append(out, args[i+1:]...)
		}
		if !strings.HasPrefix(a.Text, "-") || a.Text == "-" {
			if out == nil {
				out = make([]Word, 0, len(args)-i)
			}
			out = append(out, a)
		}
	}
	return out
}

// operand returns the first operand.
func operand(args []Word) Word {
	for i, a := range args {
		if a.Text == "--" {
			if i+1 < len(args) {
				return args[i+1]
			}
			break
		}
		if !strings.HasPrefix(a.Text, "-") || a.Text == "-" {
			return a
		}
	}
	return Word{}
}

// Language returns the language that an interpreter of the name runs: "shell", "python",
// "perl", "ruby", "javascript", "php", "lua", ...; "" for any other program.
func Language(name string) string {
	name = strings.TrimRight(name, "0123456789.")
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "mksh", "fish":
		return "shell"
	case "python", "pypy", "ipython":
		return "python"
	case "perl", "ruby", "php", "lua", "tclsh", "Rscript", "julia", "groovy":
		return strings.ToLower(name)
	case "elixir", "iex", "osascript", "guile", "jshell", "scala", "racket", "sbcl", "clisp", "ghci", "runghc", "ocaml", "erl", "octave", "swift", "kotlin", "dart", "crystal", "raku", "janet", "fennel", "csi", "pwsh", "powershell", "wish", "gosh", "chicken", "nim", "bb", "clojure":
		return "code"
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
		if !in.plain {
			w.opaque("%s runs what another command writes", name)
		}
		if text := again.Replace(in.text); strings.Trim(readable.Replace(in.text), "? \n") != "" {
			// The known part of it counts.
			w.under(name, func() value { return w.script(text, nil, known("")) })
		}
	}
	return unknown(at)
}

// interpreter notes the code that an interpreter of another language is given.
func (w *walker) interpreter(at int, lang string, rest []Word, in value) {
	var parts, vars []Word
	file, ran := Word{}, false
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		switch {
		case lang == "awk" && (a == "-f" || a == "--file") && i+1 < len(rest):
			i++
			file = rest[i]
		case lang == "awk" && (a == "-v" || a == "--assign") && i+1 < len(rest):
			i++
			vars = append(vars, rest[i])
		case lang == "awk" && strings.HasPrefix(a, "-v") && len(a) > 2:
			vars = append(vars, Word{Text: a[2:], Known: rest[i].Known})
		case lang == "awk" && a == "-F":
			i++
		case lang == "awk" && file.Text == "" && !strings.HasPrefix(a, "-"):
			parts, i = append(parts, rest[i]), len(rest)
		case lang == "python" && a == "-m":
			if i+1 < len(rest) {
				w.conventions("python -m "+rest[i+1].Text, nil, at)
				w.imports(at, lang, w.dir, "import "+rest[i+1].Text)
			}
			ran, i = true, len(rest)
		case lang == "javascript" && (a == "run" || a == "test" || a == "task" || a == "install"):
			ran = true // of deno and bun
		case lang == "javascript" && (a == "-r" || a == "--require" || a == "--import") && i+1 < len(rest):
			i++
			w.preloads(at, lang, rest[i])
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
	var code value
	switch {
	case len(parts) > 0:
		code = known("")
		for _, p := range parts {
			code.text, code.known = code.text+p.Text+"\n", code.known && p.Known
		}
		w.imports(at, lang, w.dir, code.text)
	case file.Text != "":
		code = w.read(value{text: file.Text, known: file.Known})
		if !file.Known || file.Glob {
			w.anyOf(file, at)
		}
		if code.known {
			w.imports(at, lang, path.Dir(w.abs(file.Text)), code.text)
		} else if len(code.from) > 0 && !code.plain {
			w.opaque("%s runs a file that this task wrote, and whose content cannot be known", lang)
		}
	case ran || lang == "awk":
		return
	default:
		code = in
		if in.text == "" && in.known {
			return
		}
		if !in.known && len(in.from) > 0 && !in.plain {
			w.opaque("%s runs what another command writes", lang)
		}
	}
	for _, v := range vars {
		// A variable of awk's holds its value when the program runs. An unknown value
		// counts as data, unless the program runs it.
		if k, text, ok := strings.Cut(v.Text, "="); ok {
			runs := strings.Contains(code.text, "system") || strings.Contains(code.text, "|&") || strings.Contains(code.text, "getline")
			if !runs {
				text = strings.NewReplacer(Hole, "?", Unset, "").Replace(text)
			}
			code.text, code.known = k+" = \""+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)+"\"\n"+code.text, code.known && (v.Known || !runs)
		}
	}
	c := &w.out.Commands[at]
	c.Language, c.Code = lang, code.word()
	c.From = append(c.From, code.from...)
}

// codeFlag reports whether the word after an option is code.
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
	return a == "-e" || lang == "code" && (a == "-c" || a == "--eval" || a == "-eval" || a == "-E" || a == "-Command" || a == "-command" || a == "eval")
}

// glued returns code that is in the same word as its option.
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
