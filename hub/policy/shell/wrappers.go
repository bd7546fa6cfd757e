package shell

import (
	"path"
	"slices"
	"strings"
)

// wrapper is a program that runs another with the words after its own.
type wrapper struct {
	// valued are its options that take a word.
	valued string
	long   []string
	// skip is how many words of its own come before the command.
	skip int
}

// wrappers run the words that follow as a command.
var wrappers = map[string]wrapper{
	"sudo":    {valued: "ughpCTrtRDU", long: []string{"--user", "--group", "--host", "--prompt", "--chdir", "--chroot"}},
	"doas":    {valued: "uC"},
	"env":     {valued: "uCS", long: []string{"--unset", "--chdir", "--split-string"}},
	"nohup":   {},
	"nice":    {valued: "n", long: []string{"--adjustment"}},
	"ionice":  {valued: "cnpPu", long: []string{"--class", "--classdata"}},
	"chrt":    {skip: 1},
	"taskset": {skip: 1},
	"timeout": {valued: "ks", long: []string{"--kill-after", "--signal"}, skip: 1},
	"time":    {valued: "fo", long: []string{"--format", "--output"}},
	"stdbuf":  {valued: "ioe"},
	"setsid":  {}, "setarch": {skip: 1}, "linux64": {}, "linux32": {}, "catchsegv": {}, "unbuffer": {}, "fakeroot": {}, "eatmydata": {},
	"command": {}, "builtin": {}, "exec": {valued: "a"}, "chronic": {}, "firejail": {}, "proot": {valued: "rbmw"},
	"strace": {valued: "eopsSuaEbIOPX"}, "ltrace": {valued: "eopsunalADFwx"}, "gdb": {}, "valgrind": {},
	"chroot":  {long: []string{"--userspec", "--groups"}, skip: 1},
	"unshare": {}, "nsenter": {valued: "tSG", long: []string{"--target"}}, "systemd-run": {valued: "pEMHu", long: []string{"--unit", "--property", "--uid", "--gid", "--machine"}},
	"setpriv": {long: []string{"--reuid", "--regid"}}, "capsh": {}, "prlimit": {}, "cgexec": {valued: "g"}, "numactl": {valued: "NmC"},
	"busybox": {}, "toybox": {}, "torsocks": {}, "proxychains": {}, "proxychains4": {}, "entr": {}, "dbus-run-session": {}, "xvfb-run": {},
	"runcon": {skip: 1}, "pkexec": {long: []string{"--user"}}, "gosu": {skip: 1}, "su-exec": {skip: 1}, "setuidgid": {skip: 1}, "chpst": {valued: "ueUnlmdopfcrt"},
	"caffeinate": {}, "perf": {skip: 1}, "npx": {}, "poetry": {}, "pipx": {}, "uv": {},
}

// shelled are programs with an option whose word is a script.
var shelled = map[string][]string{
	"su": {"-c", "--command", "--session-command"}, "runuser": {"-c", "--command"}, "script": {"-c", "--command"}, "flock": {"-c", "--command"},
	"vim": {"-c"}, "vi": {"-c"}, "ex": {"-c"}, "nvim": {"-c"}, "expect": {"-c"}, "sg": {"-c"}, "screen": {}, "tmux": {}, "watch": {},
	"docker": {}, "podman": {}, "kubectl": {}, "lxc": {}, "nerdctl": {},
}

// unwrap answers the command that a wrapper runs. It knows the options that take
// a word; of others it takes the first word that is none for the command.
func unwrap(name string, args []Word) (inner []Word, via string, ok bool) {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "ld.so" {
		return plain(args, ""), "ld.so", len(args) > 0
	}
	if flags, ok := shelled[name]; ok {
		return unshell(name, flags, args)
	}
	spec, ok := wrappers[name]
	if !ok {
		return nil, "", false
	}
	skip := spec.skip
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		switch {
		case a == "--":
			if skip > 0 {
				i += skip
			}
			return after(args, i+1), name, true
		case name == "env" && (strings.HasPrefix(a, "-S") || a == "--split-string" || strings.HasPrefix(a, "--split-string=")):
			text := strings.TrimPrefix(strings.TrimPrefix(a, "--split-string="), "-S")
			if text == "" || text == "--split-string" {
				if i++; i >= len(args) {
					return nil, name, true
				}
				text = args[i].Text
			}
			return []Word{word("sh"), word("-c"), {Text: text + " " + quoteAll(after(args, i+1)), Known: args[i].Known}}, "env -S", true
		case strings.HasPrefix(a, "--"):
			if slices.Contains(spec.long, a) {
				i++
			}
		case strings.HasPrefix(a, "-") && len(a) > 1:
			if last := a[len(a)-1:]; strings.Contains(spec.valued, last) && (len(a) == 2 || name == "sudo") {
				i++
			}
		case skip > 0:
			skip--
		default:
			return args[i:], name, true
		}
	}
	return nil, name, true
}

func after(args []Word, i int) []Word {
	if i >= len(args) {
		return nil
	}
	return args[i:]
}

// unshell answers a shell with the script that a program of another kind runs.
func unshell(name string, flags []string, args []Word) ([]Word, string, bool) {
	sh := func(x Word) []Word { return []Word{word("sh"), word("-c"), x} }
	for i, a := range args {
		cluster := len(a.Text) > 2 && a.Text[0] == '-' && a.Text[1] != '-' && a.Text[len(a.Text)-1] == 'c' && slices.Contains(flags, "-c")
		if (cluster || slices.Contains(flags, a.Text)) && i+1 < len(args) {
			script := args[i+1]
			if strings.HasPrefix(name, "v") || name == "ex" || name == "nvim" {
				_, text, found := strings.Cut(script.Text, "!")
				if !found {
					return nil, "", false
				}
				script.Text = text
			}
			return sh(script), name, true
		}
		for _, flag := range flags {
			if text, ok := strings.CutPrefix(a.Text, flag+"="); ok && strings.HasPrefix(flag, "--") {
				return sh(Word{Text: text, Known: a.Known}), name, true
			}
			if text, ok := strings.CutPrefix(a.Text, flag); ok && len(flag) == 2 && text != "" && !strings.HasPrefix(a.Text, "--") {
				return sh(Word{Text: text, Known: a.Known}), name, true
			}
		}
	}
	switch name {
	case "watch":
		if inner := plain(args, "nq"); len(inner) > 0 {
			j := joined(inner)
			return sh(Word{Text: j.text, Known: j.known}), name, true
		}
	case "flock":
		if inner := plain(args, "wE"); len(inner) > 1 {
			return plain(inner[1:], "wE"), name, true
		}
	case "screen", "tmux":
		for i, a := range args {
			if ops := args[i:]; a.Text == "new-session" || a.Text == "new" || a.Text == "-dm" || a.Text == "-dmS" || a.Text == "new-window" || a.Text == "run-shell" ||
				a.Text == "send-keys" || a.Text == "split-window" {
				if last := ops[len(ops)-1]; strings.Contains(last.Text, " ") {
					return sh(last), name, true
				}
				if rest := operands(ops[1:]); len(rest) > 0 {
					return rest, name, true
				}
			}
		}
	case "docker", "podman", "nerdctl", "kubectl", "lxc":
		if len(args) > 0 && (args[0].Text == "exec" || args[0].Text == "run") {
			// What it runs is after the container's or the image's name.
			for i := 1; i < len(args); i++ {
				if Language(base(args[i].Text)) == "shell" || args[i].Text == "--" {
					if args[i].Text == "--" {
						i++
					}
					return after(args, i), name + " " + args[0].Text, true
				}
			}
			if inner := plain(args[1:], "uewvpl"); len(inner) > 1 {
				return inner[1:], name + " " + args[0].Text, true
			}
		}
	}
	return nil, "", false
}

func plain(args []Word, valued string) []Word {
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		switch {
		case a == "--":
			return after(args, i+1)
		case strings.HasPrefix(a, "--"):
		case strings.HasPrefix(a, "-") && len(a) > 1:
			if len(a) == 2 && strings.Contains(valued, a[1:]) {
				i++
			}
		default:
			return args[i:]
		}
	}
	return nil
}

// ssh walks a command that runs on another machine.
func (w *walker) ssh(rest []Word, in value, at int) value {
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if strings.HasPrefix(a, "-") && len(a) > 1 {
			if a == "-o" && i+1 < len(rest) && strings.HasPrefix(strings.ToLower(rest[i+1].Text), "proxycommand") {
				w.code("ssh ProxyCommand", known(strings.TrimLeft(rest[i+1].Text[len("proxycommand"):], "= ")), nil, value{})
			}
			if len(a) == 2 && strings.ContainsAny(a[1:], "bcDEeFIiJLlmOopQRSWw") {
				i++
			}
			continue
		}
		host := a
		if _, h, ok := strings.Cut(host, "@"); ok {
			host = h
		}
		before := w.host
		w.host = host
		defer func() { w.host = before }()
		if command := after(rest, i+1); len(command) > 0 {
			return w.code("ssh", joined(command), nil, in)
		}
		if in.text != "" || len(in.from) > 0 {
			return w.under("ssh", func() value { return w.stdin("ssh", in, at) })
		}
		return unknown(at)
	}
	return unknown(at)
}

// xargs walks the command that it runs with words that it reads.
func (w *walker) xargs(name string, rest []Word, in value) value {
	inner, replace := []Word(nil), ""
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if strings.HasPrefix(a, "-") && len(a) > 1 {
			switch {
			case a == "-I" || a == "--replace":
				if i++; i < len(rest) {
					replace = rest[i].Text
				}
			case strings.HasPrefix(a, "-I"):
				replace = a[2:]
			case a == "-i":
				replace = "{}"
			case len(a) == 2 && strings.ContainsAny(a[1:], "adEeLlnPsj"):
				i++
			}
			continue
		}
		inner = rest[i:]
		break
	}
	if name == "parallel" {
		if i := slices.IndexFunc(inner, func(x Word) bool { return x.Text == ":::" }); i >= 0 {
			in, inner = joined(inner[i+1:]), inner[:i]
		}
		replace = "{}"
	}
	var fed []Word
	if in.known && !holed(in.text) {
		for _, f := range strings.FieldsFunc(in.text, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }) {
			fed = append(fed, word(strings.Trim(f, `"'`)))
		}
	} else {
		for _, f := range strings.Fields(strings.ReplaceAll(in.text, hole, " "+hole+" ")) {
			fed = append(fed, Word{Text: f})
		}
		if len(fed) == 0 {
			fed = []Word{{Text: hole}}
		}
	}
	if len(inner) == 0 {
		if name == "parallel" {
			// Each line is a command.
			return w.code(name, in, nil, value{})
		}
		inner = []Word{word("echo")}
	}
	args := slices.Clone(inner)
	replaced := false
	for i := range args {
		if replace != "" && strings.Contains(args[i].Text, replace) && len(fed) > 0 {
			j := joined(fed)
			args[i] = Word{Text: strings.ReplaceAll(args[i].Text, replace, j.text), Known: args[i].Known && j.known}
			replaced = true
		}
	}
	if !replaced {
		args = append(args, fed...)
	}
	before := len(w.out.Commands)
	if name == "parallel" && len(args) == 1 {
		return w.code(name, joined(args), nil, value{})
	}
	out := w.inner(name, args, value{known: true})
	for i := before; i < len(w.out.Commands); i++ {
		w.out.Commands[i].From = append(w.out.Commands[i].From, in.from...)
	}
	return out
}

// find walks what -exec and its like run: the places where it looks stand for
// what it finds.
func (w *walker) find(name string, rest []Word, in value, at int) value {
	var roots []Word
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if name == "find" && len(roots) == 0 && (a == "-H" || a == "-L" || a == "-P") {
			continue
		}
		if strings.HasPrefix(a, "-") || a == "(" || a == "!" {
			break
		}
		roots = append(roots, rest[i])
	}
	if len(roots) == 0 {
		roots = []Word{word(".")}
	}
	for i := 0; i < len(rest); i++ {
		switch a := rest[i].Text; a {
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			var inner []Word
			for i++; i < len(rest) && rest[i].Text != ";" && rest[i].Text != "+"; i++ {
				if rest[i].Text == "{}" {
					for _, r := range roots {
						inner = append(inner, Word{Text: path.Join(r.Text, hole), Known: false})
					}
					continue
				}
				x := rest[i]
				if strings.Contains(x.Text, "{}") {
					x = Word{Text: strings.ReplaceAll(x.Text, "{}", path.Join(roots[0].Text, hole))}
				}
				inner = append(inner, x)
			}
			if len(inner) > 0 {
				w.inner("find "+a, inner, in)
			}
		}
	}
	return unknown(at)
}

// git walks aliases and hooks that its options make commands of.
func (w *walker) git(rest []Word, in value, at int) value {
	for i, a := range rest {
		if a.Text == "-c" && i+1 < len(rest) {
			key, v, _ := strings.Cut(rest[i+1].Text, "=")
			low := strings.ToLower(key)
			if cmd, ok := strings.CutPrefix(v, "!"); ok {
				w.code("git", known(cmd), nil, in)
			} else if strings.HasSuffix(low, "sshcommand") || strings.HasSuffix(low, "pager") || strings.HasSuffix(low, "editor") || strings.HasSuffix(low, "fsmonitor") {
				w.code("git", known(v), nil, in)
			}
		}
	}
	return unknown(at)
}

// schedule walks the commands of a crontab.
func (w *walker) schedule(in value) {
	for line := range strings.Lines(in.text) {
		fields := strings.Fields(line)
		skip := 5
		if len(fields) > 0 && strings.HasPrefix(fields[0], "@") {
			skip = 1
		}
		if len(fields) > skip && !strings.HasPrefix(fields[0], "#") {
			w.code("cron", value{text: strings.Join(fields[skip:], " "), known: in.known}, nil, value{})
		}
	}
}

// readInto sets the variables that read fills.
func (w *walker) readInto(rest []Word, in value) value {
	var names []string
	array := false
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if strings.HasPrefix(a, "-") {
			array = array || strings.Contains(a, "a")
			if len(a) == 2 && strings.ContainsAny(a[1:], "dinNptu") {
				i++
			}
			continue
		}
		names = append(names, a)
	}
	line, _, _ := strings.Cut(in.text, "\n")
	fields := strings.Fields(line)
	for i, name := range names {
		v := ""
		switch {
		case array:
			v = strings.Join(fields, " ")
		case i == len(names)-1 && i < len(fields):
			v = strings.Join(fields[i:], " ")
		case i < len(fields):
			v = fields[i]
		}
		if !in.known && v == "" {
			v = hole
		}
		w.set(name, v, in.known && w.branch == 0)
		x := w.vars[name]
		x.from = in.from
		w.vars[name] = x
	}
	return known("")
}
