package shell

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The functions below know the programs that contain a shell, and which of their words,
// settings and variables that shell runs.

// evaluated are options whose value a program gives to a shell, or starts.
var evaluated = map[string][]string{
	"tar": list("--checkpoint-action --to-command --use-compress-program -I --rsh-command --info-script --new-volume-script -F"), "bsdtar": list("--use-compress-program"),
	"rsync": list("-e --rsh --rsync-path"), "scp": list("-S"), "sftp": list("-S"), "zip": list("-TT --unzip-command"), "wget": list("--use-askpass"), "tcpdump": list("-z"),
	"man": list("-P --pager -H --html"), "rg": list("--pre --hostname-bin"), "fzf": list("--preview --execute"), "sort": list("--compress-program"), "split": list("--filter"), "csplit": nil,
	"dpkg": list("--pre-invoke --post-invoke"), "openvpn": list("--up --down --route-up --tls-verify"), "make": list("--eval"), "gmake": list("--eval"), "git": nil,
	"npm": list("--script-shell --call"), "pip": nil, "logrotate": nil, "start-stop-daemon": list("--exec --startas"), "ffmpeg": nil, "nmap": list("--script"),
	"emacs": list("--eval --execute"), "gcc": list("-wrapper"), "g++": list("-wrapper"), "cc": list("-wrapper"), "clang": list("-wrapper"), "pytest": nil, "sqlite3": list("-cmd"),
	"inotifywait": nil, "incron": nil, "mutt": list("-e"), "git-filter-repo": nil, "apt-get": list("-o --option"), "apt": list("-o --option"), "less": nil, "pacman": list("--hookdir"), "ctags": nil, "cscope": nil,
	"snmpd": nil, "socat": nil, "aria2c": list("--on-download-complete --on-download-start --on-download-error --on-bt-download-complete"), "transmission-cli": list("-f --finish"), "yt-dlp": list("--exec"), "xdotool": nil, "sshfs": list("-o"), "curl": nil,
	"clush": list("-w"), "dosbox": list("-c"), "mkfs": nil, "ncdu": nil, "nvim": nil, "flock": nil, "unison": list("-sshcmd"), "restic": list("--password-command"), "borg": list("--rsh"), "svn": list("--editor-cmd --diff-cmd"), "hg": list("--config"),
}

// commandKeys are ends of the settings of git and its like whose value is a command.
var commandKeys = regexp.MustCompile(`(?i)^alias\.|(?:sshcommand|pager|editor|fsmonitor|external|textconv|\.clean|\.smudge|\.process|askpass|\.program|\.driver|\.cmd|gitproxy|uploadpack|receivepack|difffilter|hookspath|packobjectshook|ssh|^pager\..*)$`)

// hosts walks the code that a program passes to a shell besides its own work.
func (w *walker) hosts(name string, rest []Word, in value, at int) {
	options := evaluated[name]
	for i, a := range rest {
		for _, option := range options {
			v, ok := Word{}, false
			switch {
			case a.Text == option && i+1 < len(rest):
				v, ok = rest[i+1], true
			case strings.HasPrefix(option, "--") && strings.HasPrefix(a.Text, option+"="):
				v, ok = Word{Text: a.Text[len(option)+1:], Known: a.Known}, true
			case len(option) == 2 && len(a.Text) > 2 && !strings.HasPrefix(a.Text, "--") && strings.HasPrefix(a.Text, option):
				v, ok = Word{Text: strings.TrimPrefix(a.Text[2:], "="), Known: a.Known}, true
			}
			if ok {
				w.evaluates(name, option, v)
			}
		}
	}
	switch name {
	case "vim", "vi", "ex", "nvim", "view", "vimdiff", "gvim", "rvim", "emacs", "ed", "red":
		w.editor(name, rest, in)
	case "sed", "gsed":
		w.sedRuns(rest, in, at)
	case "gdb", "lldb", "mysql", "mariadb", "psql", "sqlite3", "ftp", "sftp", "dc", "bc", "gnuplot", "less", "more", "telnet", "sqlplus", "irb", "maxima", "octave", "ghci", "mail", "mailx", "rlwrap":
		w.escapes(name, rest, in)
	case "m4":
		for _, m := range m4Calls.FindAllStringSubmatch(in.text+"\n"+strings.Join(texts(rest), " "), 20) {
			w.code(name, known(m[1]), nil, value{})
		}
	case "expect", "tclsh":
		text := in.text + "\n" + strings.Join(texts(rest), "\n")
		for _, m := range spawned.FindAllStringSubmatch(text, 20) {
			w.code(name, known(m[1]), nil, value{})
		}
	case "socat":
		for _, a := range rest {
			if i := strings.Index(strings.ToUpper(a.Text), "EXEC:"); i >= 0 {
				text, _, _ := strings.Cut(a.Text[i+len("EXEC:"):], ",")
				w.code(name, value{text: strings.Trim(text, `"'`), known: a.Known}, nil, value{})
			} else if i := strings.Index(strings.ToUpper(a.Text), "SYSTEM:"); i >= 0 {
				w.code(name, value{text: strings.Trim(a.Text[i+len("SYSTEM:"):], `"'`), known: a.Known}, nil, value{})
			}
		}
	case "nc", "ncat", "netcat":
		for i, a := range rest {
			if (a.Text == "-c" || a.Text == "--sh-exec" || a.Text == "-e" || a.Text == "--exec") && i+1 < len(rest) {
				w.code(name, joined(rest[i+1:i+2]), nil, value{})
			}
		}
	case "npm", "yarn", "pnpm":
		// npm pkg set scripts.test=COMMAND
		for _, a := range rest {
			if k, v, ok := strings.Cut(a.Text, "="); ok && strings.HasPrefix(k, "scripts.") {
				w.code(name, value{text: v, known: a.Known}, nil, value{})
			}
		}
	case "composer", "pdm", "hatch":
	}
}

// evaluates walks the value of an option that a program gives to a shell.
func (w *walker) evaluates(name, option string, v Word) {
	text := value{text: v.Text, known: v.Known}
	switch {
	case option == "--checkpoint-action":
		cmd, ok := strings.CutPrefix(text.text, "exec=")
		if !ok {
			return
		}
		text.text = cmd
	case option == "-wrapper":
		text.text = strings.ReplaceAll(text.text, ",", " ")
	case (name == "apt" || name == "apt-get") && !strings.Contains(text.text, "Invoke"), name == "sshfs" && !strings.Contains(strings.ToLower(text.text), "command"), name == "nmap", name == "hg" && !strings.Contains(text.text, "!"):
		return
	case name == "apt" || name == "apt-get" || name == "sshfs":
		_, text.text, _ = strings.Cut(text.text, "=")
	case name == "hg":
		_, text.text, _ = strings.Cut(text.text, "!")
	case name == "make" || name == "gmake":
		w.makefile(text)
		return
	case name == "emacs":
		for _, m := range quotedText.FindAllStringSubmatch(text.text, 20) {
			w.code(name, known(m[1]), nil, value{})
		}
		return
	case name == "sqlite3" || name == "mutt":
		w.escapes(name, []Word{v}, value{})
		return
	}
	w.code(name+" "+option, text, nil, value{})
}

var (
	quotedText = regexp.MustCompile(`["']([^"']{2,})["']`)
	m4Calls    = regexp.MustCompile("\\b(?:e?syscmd)\\(\\s*[`\"']*([^`')]+)")
	spawned    = regexp.MustCompile(`(?m)\b(?:spawn|exec|system)\s+(?:-\S+\s+)*(?:--\s+)?([^\n\]"}]+)`)
	escaped    = regexp.MustCompile(`(?m)^\s*(?:\\?!|shell\s|\.shell\s|\.system\s|\\!\s*|system\s+)\s*(.+)$|\\!\s*([^'"\n]+)|(?i:\bto\s+program|from\s+program)\s+'([^']+)'|(?:^|[;"'|])\s*\.(?:shell|system)\s+([^"'\n]+)`)
	seds       = regexp.MustCompile(`(?:^|[;{}\n])\s*(?:[0-9$]+|/[^/]*/)?(?:,(?:[0-9$]+|/[^/]*/))?\s*e(?:\s+([^\n]+))?$`)
	sedFlags   = regexp.MustCompile(`(?:^|[;{}\s])s([^\sA-Za-z0-9\\])(?:[^\\]|\\.)*?[^\sA-Za-z0-9]([gpiImM0-9]*e[gpiImM0-9]*)(?:$|[;}\s])`)
)

// editor walks the shell commands of editors: what follows a "!", and system().
func (w *walker) editor(name string, rest []Word, in value) {
	lines := strings.Split(in.text, "\n")
	for i, a := range rest {
		switch {
		case strings.HasPrefix(a.Text, "+"):
			lines = append(lines, a.Text[1:])
		case (a.Text == "-c" || a.Text == "--cmd" || a.Text == "-s" || a.Text == "-S") && i+1 < len(rest):
			lines = append(lines, rest[i+1].Text)
			if v, ok := w.content(w.abs(rest[i+1].Text)); ok && v.known {
				lines = append(lines, strings.Split(v.text, "\n")...)
			}
		}
	}
	for _, line := range lines {
		if _, text, ok := strings.Cut(line, "!"); ok {
			w.code(name, value{text: text, known: !holed(text)}, nil, value{})
		} else if strings.Contains(line, "system(") {
			for _, m := range quotedText.FindAllStringSubmatch(line, 5) {
				w.code(name, known(m[1]), nil, value{})
			}
		}
	}
}

// escapes walks the shell commands of programs that take commands of their own.
func (w *walker) escapes(name string, rest []Word, in value) {
	text := in.text
	for _, a := range rest {
		if strings.Contains(a.Text, "!") || strings.Contains(a.Text, "shell") || strings.Contains(a.Text, "system") || strings.Contains(strings.ToLower(a.Text), "program") {
			text += "\n" + strings.TrimPrefix(a.Text, "+")
		}
	}
	for _, m := range escaped.FindAllStringSubmatch(text, 20) {
		if cmd := m[1] + m[2] + m[3] + m[4]; strings.TrimSpace(cmd) != "" {
			w.code(name, value{text: cmd, known: !holed(cmd)}, nil, value{})
		}
	}
}

// sedRuns walks what sed runs: its command e, and the flag of s.
func (w *walker) sedRuns(rest []Word, in value, at int) {
	for i, a := range rest {
		if strings.HasPrefix(a.Text, "-") && a.Text != "-" && !strings.HasPrefix(a.Text, "-e") && !strings.HasPrefix(a.Text, "--expression=") {
			continue
		}
		if i > 0 && (rest[i-1].Text == "-f" || rest[i-1].Text == "--file") {
			if v, ok := w.content(w.abs(a.Text)); ok && a.Known {
				for line := range strings.Lines(v.text) {
					w.sedScript(strings.TrimSpace(line), in, at)
				}
			}
			continue
		}
		w.sedScript(strings.TrimPrefix(strings.TrimPrefix(a.Text, "--expression="), "-e"), in, at)
		if i == 0 || !strings.HasPrefix(rest[i-1].Text, "-e") {
			break // the rest are files
		}
	}
}

// sedScript walks what one script of sed runs.
func (w *walker) sedScript(script string, in value, at int) {
	for _, m := range seds.FindAllStringSubmatch(script, 10) {
		if m[1] != "" {
			w.code("sed", known(m[1]), nil, value{})
		} else {
			w.stdin("sed", in, at)
		}
	}
	if sedFlags.MatchString(script) {
		w.opaque("sed runs the lines that it makes")
	}
}

// git walks aliases, hooks and the commands of its settings and options.
func (w *walker) git(rest []Word, in value, at int) value {
	before := w.dir
	defer func() { w.dir = before }()
	sub := 0
	for ; sub < len(rest) && strings.HasPrefix(rest[sub].Text, "-"); sub++ {
		switch rest[sub].Text {
		case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix":
			if sub+1 < len(rest) && rest[sub].Text == "-C" && rest[sub+1].Known {
				w.dir = w.abs(rest[sub+1].Text)
			}
			sub++
		}
	}
	verb := ""
	if sub < len(rest) {
		verb = rest[sub].Text
	}
	for i, a := range rest {
		next := Word{}
		if i+1 < len(rest) {
			next = rest[i+1]
		}
		option, glued, isGlued := strings.Cut(a.Text, "=")
		v := next
		if isGlued {
			v = Word{Text: glued, Known: a.Known}
		}
		switch {
		case a.Text == "-c" && (i < sub || verb == "clone"), option == "--config":
			if k, text, ok := strings.Cut(v.Text, "="); ok {
				w.setting(k, Word{Text: text, Known: v.Known}, in)
			}
		case option == "--upload-pack" || option == "--receive-pack" || option == "--extcmd" || option == "--exec" && i > sub || verb == "rebase" && a.Text == "-x" || verb == "difftool" && a.Text == "-x" || verb == "clone" && a.Text == "-u" ||
			verb == "filter-branch" && strings.HasSuffix(option, "-filter"):
			w.code("git "+verb+" "+option, value{text: v.Text, known: v.Known}, nil, in)
		case strings.HasPrefix(a.Text, "ext::"):
			w.code("git", value{text: strings.ReplaceAll(a.Text[len("ext::"):], "% ", `\ `), known: a.Known}, nil, in)
		}
	}
	if text, ok := w.gits[verb]; ok && !slices.Contains(w.calls, "git "+verb) {
		w.calls = append(w.calls, "git "+verb)
		w.code("git", known("git "+text+" "+quoteAll(rest[sub+1:])), nil, in)
		w.calls = w.calls[:len(w.calls)-1]
	}
	switch verb {
	case "config":
		if ops := operands(rest[sub+1:]); len(ops) > 1 {
			if ops[0].Text == "set" && len(ops) > 2 {
				ops = ops[1:]
			}
			w.setting(ops[0].Text, ops[1], in)
		}
	case "clone":
		w.cloned(operands(rest[sub+1:]), at)
	case "commit", "merge", "rebase", "checkout", "switch", "push", "pull", "am", "cherry-pick", "revert", "gc", "":
		w.each(func(name string) bool {
			dir := w.gits["core.hookspath"]
			return dir != "" && strings.HasPrefix(name, w.abs(dir)+"/") || strings.Contains(name, "/.git/hooks/") && !strings.HasSuffix(name, ".sample") || strings.Contains(name, "/.husky/")
		}, func(name string, _ value) { w.file("git "+verb, word(name), []string{name}, value{}, at) })
	}
	if out, ok := w.wrap("git", rest, in, redirected{}, at); ok {
		return out
	}
	return unknown(at)
}

// setting walks a setting of git whose value is a command.
func (w *walker) setting(key string, v Word, in value) {
	if !commandKeys.MatchString(key) || v.Text == "" {
		return
	}
	text, shell := strings.CutPrefix(v.Text, "!")
	if strings.HasPrefix(strings.ToLower(key), "alias.") && !shell {
		// One of its own commands.
		w.gits = maps.Clone(w.gits)
		if w.gits == nil {
			w.gits = map[string]string{}
		}
		w.gits[key[len("alias."):]] = v.Text
		return
	}
	if strings.EqualFold(key, "core.hookspath") {
		w.gits = maps.Clone(w.gits)
		if w.gits == nil {
			w.gits = map[string]string{}
		}
		w.gits["core.hookspath"] = v.Text // what is in there is looked into when it runs
		return
	}
	w.code("git", value{text: text, known: v.Known}, nil, in)
}

// Variables whose value the shell, or a program that it starts, runs: as a
// script, as the name of one, or as text that it expands.
var (
	scriptVariables = list(`PROMPT_COMMAND LESSOPEN LESSCLOSE GIT_SSH_COMMAND GIT_SSH GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS PAGER MANPAGER SYSTEMD_PAGER
		EDITOR VISUAL SUDO_EDITOR FCEDIT BROWSER RSYNC_RSH CVS_RSH SVN_SSH CVS_SERVER TAR_RSH FZF_DEFAULT_COMMAND RUSTC_WRAPPER MAKESHELL`)
	fileVariables   = list("BASH_ENV ENV PYTHONSTARTUP")
	promptVariables = list("PS0 PS1 PS2 PS4")
)

// reaches walks what a variable's value has programs do that are started after it
// is set.
func (w *walker) reaches(name string, v value) {
	if changes(name) {
		w.exported = true
	}
	switch {
	case v.text == "" || v.text == Unset:
	case slices.Contains(promptVariables, name):
		w.prompted(v.text)
	case slices.Contains(scriptVariables, name):
		w.code(name, value{text: strings.TrimPrefix(v.text, "|"), known: v.known}, nil, value{})
	case slices.Contains(fileVariables, name):
		at := w.emit(Command{Args: []Word{word("source"), v.word()}})
		w.file(name, v.word(), []string{v.text}, value{}, at)
	case name == "NODE_OPTIONS" || name == "PERL5OPT" || name == "RUBYOPT":
		for _, f := range strings.Fields(v.text) {
			f = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(f, "--require="), "--import="), "-r")
			if _, ok := w.content(w.abs(f)); ok {
				at := w.emit(Command{Args: []Word{word("export"), word(name + "=" + v.text)}})
				w.preloads(at, map[string]string{"NODE_OPTIONS": "javascript", "PERL5OPT": "perl", "RUBYOPT": "ruby"}[name], word(f))
			}
		}
	case strings.HasPrefix(name, "BASH_FUNC_"):
		w.code(name, value{text: strings.TrimPrefix(v.text, "()"), known: v.known}, nil, value{})
	}
}

// changing are variables that programs load code by, or take other programs or
// settings from; changingPrefixes are beginnings of their names.
var (
	changing         = list("PATH IFS HOME SHELL CC CXX GOFLAGS MAKEFLAGS NODE_OPTIONS NODE_PATH RUSTC RUSTFLAGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS DOCKER_HOST KUBECONFIG")
	changingPrefixes = list("LD_ DYLD_ GIT_ PYTHON PERL5 RUBY BASH_FUNC_ CARGO_BUILD_ CARGO_TARGET_ npm_config_ NPM_CONFIG_ PIP_ BUNDLE_")
)

// changes reports whether a variable changes which programs run, or what they do.
func changes(name string) bool {
	return slices.Contains(changing, name) || slices.Contains(scriptVariables, name) || slices.Contains(fileVariables, name) ||
		slices.ContainsFunc(changingPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// subscript walks the substitutions in a subscript: bash runs them wherever it
// takes the name of a variable, or a number.
func (w *walker) subscript(text string) {
	if i := strings.IndexByte(text, '['); i > 0 && arrayName.MatchString(text) {
		w.prompted(text[i+1:])
	}
}

var arrayName = regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_]*\\[.*(?:\\$\\(|`)")
