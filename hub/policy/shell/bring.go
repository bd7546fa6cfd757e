package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// The functions below track files that programs download, copy and change, and files that
// programs run by convention.

// fetches reports whether a program brings files from elsewhere.
func fetches(name string) bool {
	switch name {
	case "curl", "wget", "wget2", "aria2c", "axel", "fetch", "http", "https", "xh", "curlie", "lwp-download", "ftp", "tftp", "scp", "sftp":
		return true
	}
	return false
}

// brings records the files that a program writes besides its output.
func (w *walker) brings(name string, rest []Word, in value, at int) {
	if fetches(name) {
		w.download(name, rest, at)
		return
	}
	option := func(names ...string) (Word, bool) {
		for i, a := range rest {
			for _, n := range names {
				if a.Text == n && i+1 < len(rest) {
					return rest[i+1], true
				}
				if v, ok := strings.CutPrefix(a.Text, n+"="); ok && strings.HasPrefix(n, "--") {
					return Word{Text: v, Known: a.Known}, true
				}
				if len(n) == 2 && len(a.Text) > 2 && strings.HasPrefix(a.Text, n) && !strings.HasPrefix(a.Text, "--") {
					return Word{Text: a.Text[2:], Known: a.Known}, true
				}
			}
		}
		return Word{}, false
	}
	made := func(x Word, from ...int) {
		if (x.Known || named(x.Text)) && x.Text != "" && x.Text != "-" {
			w.keep(w.abs(x.Text), unknown(append(from, at)...))
		}
	}
	switch name {
	case "dd":
		src, text := in, Word{}
		for _, a := range rest {
			if v, ok := strings.CutPrefix(a.Text, "if="); ok {
				src = w.read(value{text: v, known: a.Known})
			} else if v, ok := strings.CutPrefix(a.Text, "of="); ok {
				text = Word{Text: v, Known: a.Known}
			}
		}
		if text.Known && text.Text != "" {
			src.from = append(slices.Clone(src.from), at)
			w.write(text.Text, src, false)
		}
	case "sed", "perl", "patch", "ed", "ex", "sponge":
		ops := operands(rest)
		inPlace := slices.ContainsFunc(rest, func(a Word) bool {
			return strings.HasPrefix(a.Text, "-i") || a.Text == "--in-place" || name == "perl" && strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.Contains(a.Text, "i")
		})
		for _, a := range ops {
			if v, ok := w.content(w.abs(a.Text)); ok && (inPlace || name != "sed" && name != "perl") {
				made(a, v.from...)
			}
		}
		if name == "sponge" && len(ops) > 0 {
			w.write(ops[0].Text, in, false)
		}
	case "gunzip", "bunzip2", "unxz", "uncompress", "gzip", "xz", "bzip2", "zstd", "uudecode":
		ops := operands(rest)
		for _, a := range ops {
			if v, ok := w.content(w.abs(a.Text)); ok {
				made(Word{Text: strings.TrimSuffix(a.Text, path.Ext(a.Text)), Known: a.Known}, v.from...)
			}
		}
		if x, ok := option("-o"); ok {
			made(x)
		}
	case "openssl", "gpg", "gpg2", "age", "xxd", "base64", "certutil":
		ops := operands(rest)
		if x, ok := option("-out", "-o", "--output"); ok {
			made(x, in.from...)
		}
		if name == "xxd" && len(ops) > 1 {
			made(ops[len(ops)-1])
		}
	case "tar", "bsdtar", "unzip", "7z", "cpio", "unrar", "ar":
		ops := operands(rest)
		archive := Word{}
		if x, ok := option("-f", "--file"); ok && name != "unzip" && name != "7z" {
			archive = x
		} else if len(ops) > 0 {
			archive = ops[0]
			if name == "tar" && len(ops) > 1 && !strings.Contains(ops[0].Text, ".") {
				archive = ops[1] // tar xzf FILE
			}
		}
		for i, a := range rest {
			if strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.HasSuffix(a.Text, "f") && i+1 < len(rest) {
				archive = rest[i+1]
			}
		}
		from := append(slices.Clone(in.from), at)
		v, ok := w.content(w.abs(archive.Text))
		if !ok && len(in.from) == 0 {
			return // an archive that was there before
		}
		dir := word(w.dir)
		if x, ok := option("-C", "--directory", "-d"); ok {
			dir = x
		}
		if dir.Known {
			w.brought(w.abs(dir.Text), append(from, v.from...)...)
		}
	}
}

// cloned notes the folder that a clone brings.
func (w *walker) cloned(ops []Word, at int) {
	if len(ops) == 0 {
		return
	}
	dir := Word{Text: strings.TrimSuffix(base(strings.TrimRight(ops[0].Text, "/")), ".git"), Known: ops[0].Known}
	if i := strings.LastIndexByte(dir.Text, ':'); i >= 0 {
		dir.Text = dir.Text[i+1:]
	}
	if len(ops) > 1 {
		dir = ops[len(ops)-1]
	}
	if dir.Known && dir.Text != "" {
		w.brought(w.abs(dir.Text), at)
	}
}

// copies follows what ln, cp, mv and install do to files.
func (w *walker) copies(name string, rest []Word, at int) {
	ops, into := operands(rest), ""
	for i, a := range rest {
		if (a.Text == "-t" || a.Text == "--target-directory") && i+1 < len(rest) {
			into = rest[i+1].Text
			ops = slices.DeleteFunc(ops, func(x Word) bool { return x.Text == into })
		}
		if (a.Text == "-m" || a.Text == "--mode" || a.Text == "-o" || a.Text == "-g") && name == "install" && i+1 < len(rest) {
			mode := rest[i+1].Text
			ops = slices.DeleteFunc(ops, func(x Word) bool { return x.Text == mode })
		}
	}
	symbolic := name == "ln" && slices.ContainsFunc(rest, func(x Word) bool {
		return x.Text == "--symbolic" || strings.HasPrefix(x.Text, "-") && !strings.HasPrefix(x.Text, "--") && strings.Contains(x.Text, "s")
	})
	if into == "" {
		if len(ops) == 1 && name == "ln" {
			ops = append(ops, word("."))
		}
		if len(ops) < 2 {
			return
		}
		into, ops = ops[len(ops)-1].Text, ops[:len(ops)-1]
		if !strings.HasSuffix(into, "/") && into != "." && into != ".." && len(ops) == 1 && !w.folder(into) {
			w.copied(name, ops[0], w.place(into), symbolic, at)
			return
		}
	}
	for _, from := range ops {
		w.copied(name, from, path.Join(w.abs(into), base(strings.TrimRight(from.Text, "/"))), symbolic, at)
	}
}

// place returns an absolute path in which links are resolved for the folder only.
func (w *walker) place(name string) string {
	full := resolve(path.Dir(name), w.dir, w.links)
	return path.Join(full, path.Base(name))
}

// folder reports whether a path is one of the folders that every machine has.
func (w *walker) folder(name string) bool {
	switch w.abs(name) {
	case "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/tmp", "/opt", "/", "/etc", Workspace, w.dir:
		return true
	}
	return false
}

func (w *walker) copied(name string, from Word, to string, symbolic bool, at int) {
	if !from.Known || holed(to) {
		return
	}
	src := from.Text
	if symbolic {
		w.link(src, to)
		return
	}
	src = w.abs(src)
	switch v, ok := w.content(src); {
	case ok:
		v.from = append(slices.Clone(v.from), at)
		w.keep(to, v)
	case strings.Contains(src, "bin/") || name == "ln":
		w.link(src, to)
	}
	// What is below it comes along.
	below := func(file string) bool { return strings.HasPrefix(file, src+"/") }
	w.each(below, func(file string, v value) { w.keep(path.Join(to, strings.TrimPrefix(file, src+"/")), v) })
}

// download notes the file that a program brings from elsewhere.
func (w *walker) download(name string, rest []Word, at int) {
	var to []string
	remote, dir := false, ""
	wget := strings.HasPrefix(name, "wget")
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		next := ""
		if i+1 < len(rest) {
			next = rest[i+1].Text
		}
		option, v, glued := strings.Cut(a, "=")
		switch {
		case option == "--output" || option == "--output-document" || option == "--output-dir" || option == "--directory-prefix" || option == "--dir" || option == "--out":
			if !glued {
				v = next
				i++
			}
			if strings.HasSuffix(option, "dir") || strings.HasSuffix(option, "prefix") {
				dir = v
			} else {
				to = append(to, v)
			}
		case a == "--remote-name" || a == "--remote-name-all":
			remote = true
		case strings.HasPrefix(a, "--") || !strings.HasPrefix(a, "-"):
			if !strings.HasPrefix(a, "-") && strings.Contains(a, "/") && name != "curl" {
				remote = true
			}
		default:
			// A cluster of letters: the one that takes a name takes the rest, or the next
			// word.
			for j := 1; j < len(a); j++ {
				letter := a[j]
				named := letter == 'o' && !wget || letter == 'O' && wget || (letter == 'P' && wget) || letter == 'd' && name == "aria2c"
				if letter == 'O' && name == "curl" {
					remote = true
				}
				if !named {
					continue
				}
				v := a[j+1:]
				if v == "" {
					v = next
					i++
				}
				if letter == 'P' || letter == 'd' {
					dir = v
				} else {
					to = append(to, v)
				}
				break
			}
		}
	}
	if remote && (len(to) == 0 || name == "curl") {
		for _, a := range rest {
			if !strings.HasPrefix(a.Text, "-") && strings.Contains(a.Text, "/") {
				text, _, _ := strings.Cut(a.Text, "?")
				to = append(to, path.Join(dir, base(strings.TrimRight(text, "/"))))
			}
		}
	} else if dir != "" {
		for i := range to {
			to[i] = path.Join(dir, to[i])
		}
	}
	for _, f := range to {
		if f != "-" && f != "" {
			w.keep(w.abs(f), unknown(at))
		}
	}
}

// convention describes which files of a folder a program runs by convention.
type convention struct {
	program string
	files   *regexp.Regexp
}

var conventions = []convention{
	{"make gmake ninja cmake meson autoreconf configure", regexp.MustCompile(`/(?:GNUmakefile|[Mm]akefile|[^/]*\.mk|build\.ninja|CMakeLists\.txt|configure|autogen\.sh)$`)},
	{"npm yarn pnpm bun npx node", regexp.MustCompile(`/(?:package\.json|\.npmrc|\.yarnrc(?:\.yml)?|[^/]*\.config\.[cm]?[jt]s)$`)},
	{"jest vitest mocha webpack vite eslint tsc ava tap karma playwright cypress rollup gulp grunt", regexp.MustCompile(`/(?:package\.json|[^/]*\.[cm]?[jt]s|\.mocharc.*)$`)},
	{"pytest tox nox python -m pytest python -m unittest python -m tox python -m nox", regexp.MustCompile(`/(?:[^/]*\.py|tox\.ini|pytest\.ini|setup\.cfg)$`)},
	{"pip pip3 pipx poetry uv pipenv hatch pdm flit python -m pip python -m build python -m venv", regexp.MustCompile(`/(?:setup\.py|pyproject\.toml|build\.py|conftest\.py|sitecustomize\.py|usercustomize\.py)$`)},
	{"rake bundle bundler rspec rails", regexp.MustCompile(`/(?:Rakefile|Gemfile|[^/]*\.rb|[^/]*\.rake|[^/]*\.gemspec)$`)},
	{"pre-commit husky lefthook", regexp.MustCompile(`/(?:\.pre-commit-config\.yaml|\.husky/[^/]+|\.git/hooks/[^/]+)$`)},
	{"docker docker-compose podman buildah kaniko", regexp.MustCompile(`/(?:Dockerfile[^/]*|[^/]*\.Dockerfile)$`)},
	{"php composer phpunit artisan", regexp.MustCompile(`/(?:composer\.json|[^/]*\.php)$`)},
	{"perl prove cpanm", regexp.MustCompile(`/(?:[^/]*\.p[lm]|Makefile\.PL|Build\.PL|[^/]*\.t)$`)},
	{"direnv", regexp.MustCompile(`/\.envrc$`)}, {"vagrant", regexp.MustCompile(`/Vagrantfile$`)}, {"just", regexp.MustCompile(`/[Jj]ustfile$`)}, {"zsh login su", regexp.MustCompile(`^/workspace/\.(?:bashrc|bash_profile|profile|zshrc|zshenv)$`)},
	{"ssh scp sftp rsync", regexp.MustCompile(`/\.ssh/config$`)}, {"gdb", regexp.MustCompile(`/\.gdbinit$`)}, {"vim vi nvim ex", regexp.MustCompile(`/(?:\.vimrc|\.exrc|init\.(?:vim|lua))$`)},
	{"curl", regexp.MustCompile(`/\.curlrc$`)}, {"wget", regexp.MustCompile(`/\.wgetrc$`)}, {"git", regexp.MustCompile(`/(?:\.gitconfig|\.git/config)$`)}, {"cargo rustc", regexp.MustCompile(`/\.cargo/config(?:\.toml)?$`)},
}

// conventionsOf are the conventions by program.
var conventionsOf = func() map[string][]*regexp.Regexp {
	out := map[string][]*regexp.Regexp{}
	for _, c := range conventions {
		words := strings.Fields(c.program)
		for i := 0; i < len(words); i++ {
			name := words[i]
			if name == "python" && i+2 < len(words) && words[i+1] == "-m" {
				name = "python -m " + words[i+2]
				i += 2
			}
			out[name] = append(out[name], c.files)
		}
	}
	return out
}()

// conventions walks the files that the task wrote and that a program runs by convention.
func (w *walker) conventions(name string, rest []Word, at int) {
	if name == "make" || name == "gmake" {
		for i, a := range rest {
			v, ok := value{}, false
			switch {
			case (a.Text == "-f" || a.Text == "--file" || a.Text == "--makefile") && i+1 < len(rest):
				if v, ok = w.now, true; rest[i+1].Text != "-" {
					v, ok = w.content(w.abs(rest[i+1].Text))
				}
			case strings.HasPrefix(a.Text, "-f") && len(a.Text) > 2:
				v, ok = w.content(w.abs(a.Text[2:]))
			case strings.HasPrefix(a.Text, "SHELL="):
				w.code(name, known(a.Text[len("SHELL="):]), nil, value{})
			}
			if ok {
				w.makefile(v)
			}
		}
	}
	if name == "curl" || name == "ssh" || name == "ansible-playbook" || name == "terraform" || name == "vim" || name == "crontab" || name == "at" {
		for i, a := range rest {
			if (a.Text == "-K" || a.Text == "--config" || a.Text == "-F") && i+1 < len(rest) {
				if v, ok := w.content(w.abs(rest[i+1].Text)); ok {
					w.settings(name, v)
				}
			}
		}
	}
	if len(w.files)+len(w.earlier.files) == 0 && w.looks == nil {
		return
	}
	patterns := conventionsOf[name]
	if len(patterns) == 0 || w.untouched() {
		return
	}
	w.each(func(file string) bool {
		return slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(file) }) && !slices.Contains(w.running, file)
	}, func(file string, v value) {
		w.running = append(w.running, file)
		w.convention(name, file, v, at)
		w.running = w.running[:len(w.running)-1]
	})
}

var jsonScript = regexp.MustCompile(`"((?:[^"\\]|\\.)+)"\s*:\s*"((?:[^"\\]|\\.)*)"`)

// convention walks one file that a program runs by convention.
func (w *walker) convention(name, file string, v value, at int) {
	lang := languageOf(file, v.text)
	switch b := path.Base(file); {
	case !v.known:
		if len(v.from) > 0 && !v.plain {
			w.out.Commands[at].From = append(w.out.Commands[at].From, v.from...)
		}
	case strings.HasSuffix(strings.ToLower(b), "makefile") || strings.HasSuffix(b, ".mk") || strings.EqualFold(b, "justfile"):
		w.makefile(v)
	case b == "package.json" || b == "composer.json":
		_, scripts, _ := strings.Cut(v.text, `"scripts"`)
		scripts, _, _ = strings.Cut(scripts, "}")
		for _, m := range jsonScript.FindAllStringSubmatch(scripts, 100) {
			w.code(name, known(strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n").Replace(m[2])), nil, value{})
		}
	case strings.Contains(b, "ockerfile"):
		for _, m := range dockerRun.FindAllStringSubmatch(v.text, 100) {
			w.code(name, known(m[1]), nil, value{})
		}
	case strings.HasPrefix(b, ".git") || b == "config" && strings.Contains(file, "/.git/"):
		for _, m := range iniLine.FindAllStringSubmatch(v.text, 200) {
			w.setting("alias."+m[1], word(m[2]), value{})
			w.setting(m[1], word(m[2]), value{})
		}
	case strings.Contains(b, "rc") && strings.HasPrefix(b, ".") && lang == "" || b == "config" || b == "config.toml":
		if strings.Contains(b, "sh") || b == ".profile" || b == ".envrc" {
			w.under(name, func() value { return w.script(v.text, nil, known("")) })
			return
		}
		w.settings(name, v)
	case lang != "" && lang != "shell":
		w.evaluateCode(at, lang, file, v)
	case lang == "shell" || strings.Contains(file, "/hooks/") || strings.Contains(file, "/.husky/") || b == "configure" || b == ".profile" || b == ".bash_profile" || b == ".envrc":
		w.under(name, func() value { return w.script(v.text, nil, known("")) })
	case b == "tox.ini" || b == "setup.cfg" || b == ".pre-commit-config.yaml":
		for _, m := range iniCommand.FindAllStringSubmatch(v.text, 50) {
			w.code(name, known(strings.TrimSpace(m[1])), nil, value{})
		}
	}
}

var (
	dockerRun  = regexp.MustCompile(`(?m)^\s*RUN\s+((?:[^\n\\]|\\\n|\\.)+)`)
	iniLine    = regexp.MustCompile(`(?m)^\s*([\w.-]+)\s*=\s*"?(.*?)"?\s*$`)
	iniCommand = regexp.MustCompile(`(?m)^\s*(?:commands(?:_pre|_post)?\s*=|entry:)[ \t]*\n?((?:.+\n?(?:[ \t]+.+\n?)*))`)
	runSetting = regexp.MustCompile(`(?im)^\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand)\s*=?\s*(.+)$`)
	fileOutput = regexp.MustCompile(`(?im)^\s*-*(?:output|o)\s*[= ]\s*"?([^"\n]+)"?`)
	vimRuns    = regexp.MustCompile(`(?m)(?:^|\W)!(.+)$|system\(["'](.+?)["']\)`)
)

// settings walks the commands that a program's own settings have it run.
func (w *walker) settings(name string, v value) {
	for _, re := range []*regexp.Regexp{runSetting, vimRuns} {
		if re == vimRuns && !slices.Contains([]string{"vim", "vi", "nvim", "ex", "gdb"}, name) {
			continue
		}
		for _, m := range re.FindAllStringSubmatch(v.text, 20) {
			w.code(name, value{text: strings.Join(m[1:], ""), known: true}, nil, value{})
		}
	}
	if name == "curl" {
		for _, m := range fileOutput.FindAllStringSubmatch(v.text, 20) {
			w.emit(Command{Args: []Word{word("curl"), word("-o"), word(m[1])}, Writes: []Word{word(m[1])}})
		}
	}
}

// makeOwn are variables that a makefile has without setting them.
var makeOwn = map[string]string{"HOME": "${HOME}", "SHELL": "sh", "CURDIR": "."}

var makeVariable = regexp.MustCompile(`\$[({]([A-Za-z0-9_.]+)[)}]`)

// makefile walks the recipes of a makefile, and what it runs as it is read.
func (w *walker) makefile(v value) {
	if !v.known && len(v.from) > 0 && !v.plain {
		w.opaque("make runs what another command writes")
		return
	}
	vars := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(v.text, "\\\n", " ")) {
		line = strings.TrimRight(line, "\n")
		for _, m := range makeShell.FindAllStringSubmatch(line, 10) {
			w.code("make", known(m[1]), nil, value{})
		}
		if k, text, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "\t") {
			if name := strings.TrimSpace(strings.TrimRight(k, ":?+!")); arrayless.MatchString(name) {
				if vars[name] = strings.TrimSpace(text); strings.HasSuffix(k, "!") {
					w.code("make", known(text), nil, value{})
				}
				continue
			}
		}
		recipe, ok := strings.CutPrefix(line, "\t")
		if _, after, found := strings.Cut(line, ";"); !ok && found && strings.Contains(line, ":") {
			recipe, ok = after, true
		}
		if !ok {
			if strings.HasPrefix(line, "  ") {
				recipe, ok = strings.TrimSpace(line), true // of a justfile
			} else {
				continue
			}
		}
		recipe = strings.TrimLeft(strings.TrimSpace(recipe), "@-+ ")
		recipe = makeVariable.ReplaceAllStringFunc(recipe, func(m string) string {
			if text, ok := vars[m[2:len(m)-1]]; ok {
				return text
			}
			if text, ok := makeOwn[m[2:len(m)-1]]; ok {
				return text
			}
			return "${deckhand_unset}"
		})
		if recipe = strings.ReplaceAll(recipe, "$$", "$"); recipe != "" && ok {
			w.code("make", known(recipe), nil, value{})
		}
	}
}

var (
	makeShell = regexp.MustCompile(`\$\(shell\s+((?:[^()]|\([^()]*\))+)\)`)
	arrayless = regexp.MustCompile(`^(?:export\s+)?[A-Za-z_.][A-Za-z0-9_.-]*$`)
)

var imported = map[string]*regexp.Regexp{
	"python":     regexp.MustCompile(`(?m)^\s*(?:from\s+\.*([\w.]+)\s+import|import\s+([\w., ]+))`),
	"javascript": regexp.MustCompile(`(?:require\(|from\s+|import\s*\(?)\s*["']([^"']+)["']`),
	"ruby":       regexp.MustCompile(`(?:require|require_relative|load)\s*\(?\s*["']([^"']+)["']`),
	"perl":       regexp.MustCompile(`(?:\buse|\brequire|\bdo)\s+["']?([\w:./]+)["']?`),
	"php":        regexp.MustCompile(`(?:include|require)(?:_once)?\s*\(?\s*["']([^"']+)["']`),
	"lua":        regexp.MustCompile(`(?:require|dofile)\s*\(?\s*["']([^"']+)["']`),
}

// imports looks into the files of the task that code brings in.
func (w *walker) imports(at int, lang, dir, text string) {
	if w.untouched() {
		return
	}
	re := imported[lang]
	if re == nil {
		return
	}
	for _, m := range re.FindAllStringSubmatch(text, 50) {
		for name := range strings.SplitSeq(strings.Join(m[1:], ""), ",") {
			name = strings.TrimSpace(name)
			if lang == "python" || lang == "perl" {
				name, _, _ = strings.Cut(name, " ")
				name = strings.NewReplacer(".", "/", "::", "/").Replace(name)
			}
			for _, end := range []string{"", ".py", "/__init__.py", ".js", ".cjs", ".mjs", "/index.js", ".rb", ".pm", ".pl", ".lua", ".php"} {
				full := resolve(name+end, dir, w.links)
				if v, ok := w.single(full); ok {
					w.evaluateCode(at, lang, full, v)
				}
			}
		}
	}
}

// preloads inspects a file that an interpreter is told to load first.
func (w *walker) preloads(at int, lang string, name Word) {
	if v, ok := w.content(w.abs(name.Text)); ok && name.Known {
		w.evaluateCode(at, lang, w.abs(name.Text), v)
	}
}

// evaluateCode records code that a program runs besides its own.
func (w *walker) evaluateCode(at int, lang, file string, v value) {
	if slices.Contains(w.loaded, file) {
		return
	}
	w.loaded = append(w.loaded, file)
	c := Command{Args: []Word{word(lang), word(file)}, Language: lang, Code: v.word(), From: v.from, Line: w.out.Commands[at].Line, Within: at + 1}
	n := w.emit(c)
	if !v.known && len(v.from) > 0 && !v.plain {
		w.opaque("%s runs a file that this task wrote, and whose content cannot be known", lang)
	}
	w.imports(n, lang, path.Dir(file), v.text)
}
