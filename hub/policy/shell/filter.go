package shell

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"github.com/deckhand-sh/deckhand/internal/grep"
)

// filter returns the output of a program that only transforms its words or its input; the
// output of other programs is unknown.
func (w *walker) filter(name string, rest []Word, in value, at int) value {
	switch name {
	case "echo":
		return echo(rest)
	case "printf":
		return printf(rest)
	case ":", "true", "false", "test", "[", "mkdir", "touch", "sleep", "exit", "return", "wait", "chmod", "rm":
		return known("")
	}
	has := func(flags ...string) bool {
		return slices.ContainsFunc(rest, func(x Word) bool { return slices.Contains(flags, x.Text) })
	}
	in.from = slices.Concat(in.from, []int{at})
	lost := value{text: hole, from: in.from}
	on := func(fn func(string) (string, bool)) value {
		text, ok := fn(in.text)
		if !ok {
			return lost
		}
		return value{text: text, known: in.known && !holed(text), from: in.from}
	}
	switch name {
	case "cat", "head", "tail", "tac", "less", "more":
		files := operands(rest)
		if name != "cat" && len(files) > 0 && isNumber(files[0].Text) {
			files = files[1:]
		}
		if name != "cat" && (in.text != "" || len(files) == 0) && len(files) == 0 {
			return value{text: in.text, known: in.known && len(rest) == 0, from: in.from}
		}
		if len(files) == 0 {
			return in
		}
		out := known("")
		for _, f := range files {
			if f.Text == "-" {
				out = out.with(in)
				continue
			}
			out = out.with(w.read(value{text: f.Text, known: f.Known && !f.Glob}))
		}
		out.from = append(out.from, in.from...)
		// An unchanged file of the workspace might be run as well.
		out.plain = name == "cat" && len(files) == 1 && files[0].Known && len(out.from) == 1
		return out
	case "base64", "gbase64", "base32", "basenc":
		if !has("-d", "-D", "--decode", "-di", "-id") {
			return lost
		}
		if files := operands(rest); len(files) > 0 {
			v := w.read(value{text: files[0].Text, known: files[0].Known})
			in.text, in.known, in.from = v.text, v.known, append(in.from, v.from...)
		}
		return on(func(s string) (string, bool) { return decode(s, name == "base32" || has("--base32")) })
	case "openssl":
		if has("-d") && has("base64", "-base64", "enc", "-a") {
			return on(func(s string) (string, bool) { return decode(s, false) })
		}
	case "xxd":
		if has("-r") || slices.ContainsFunc(rest, func(x Word) bool { return strings.HasPrefix(x.Text, "-r") || x.Text == "-pr" }) {
			return on(func(s string) (string, bool) {
				data, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
				return string(data), err == nil
			})
		}
	case "rev":
		return on(func(s string) (string, bool) {
			lines := strings.Split(s, "\n")
			for i, line := range lines {
				r := []rune(line)
				slices.Reverse(r)
				lines[i] = string(r)
			}
			return strings.Join(lines, "\n"), true
		})
	case "tr":
		return on(func(s string) (string, bool) { return tr(rest, s) })
	case "sed":
		return on(func(s string) (string, bool) { return sed(rest, s) })
	case "cut":
		return on(func(s string) (string, bool) { return cut(rest, s) })
	case "sort", "uniq", "grep", "egrep", "fgrep", "shuf":
		// Some of the lines that came in.
		if in.text != "" {
			return value{text: in.text, from: in.from}
		}
		return lost
	case "nl", "fold", "pv", "mbuffer", "sponge", "iconv", "dos2unix", "strings", "column", "expand", "gunzip", "zcat", "gzip", "bunzip2",
		"xz", "bzcat", "xzcat", "zstd", "lz4", "uudecode", "od", "hexdump", "jq", "gpg":
		// Something of what came in, in some form.
		return lost
	case "which", "type":
		if len(rest) > 0 && operand(rest).Known {
			return known("/usr/bin/" + operand(rest).Text + "\n")
		}
	case "basename":
		if a := operand(rest); a.Known {
			return known(strings.TrimSuffix(base(strings.TrimRight(a.Text, "/")), operandAt(rest, 1)) + "\n")
		}
	case "dirname":
		if a := operand(rest); a.Known {
			return known(path.Dir(a.Text) + "\n")
		}
	case "pwd":
		return known(w.dir + "\n")
	case "realpath", "readlink":
		if a := operand(rest); a.Known {
			return known(w.abs(a.Text) + "\n")
		}
	case "mktemp":
		return value{text: "/tmp/tmp." + hole + "\n", from: in.from}
	case "seq":
		return lost
	case "whoami", "hostname", "date", "uname", "nproc", "id", "arch", "wc", "stat", "du", "df", "md5sum", "sha256sum", "sha1sum", "expr", "bc", "tty", "ps", "uptime", "getconf", "lsb_release", "sw_vers", "dpkg":
		return value{text: hole, from: in.from}
	case "ls", "dir":
		// Names, as they are within the folder.
		text := ""
		for _, a := range operands(rest) {
			text += a.Text + "\n" + strings.TrimSuffix(a.Text, "/") + "/" + hole + "\n"
		}
		if text == "" {
			text = "./" + hole
		}
		return value{text: text, from: in.from}
	case "git":
		switch ops := operands(rest); {
		case len(ops) > 0 && (ops[0].Text == "ls-files" || (ops[0].Text == "diff" || ops[0].Text == "diff-tree" || ops[0].Text == "show") && has("--name-only")):
			return value{text: "./" + hole, from: in.from}
		case len(ops) > 1 && ops[0].Text == "rev-parse" && has("--show-toplevel"):
			return known(Workspace + "\n")
		case len(ops) > 0 && ops[0].Text == "rev-parse" && has("--git-path", "--git-dir", "--git-common-dir"):
			return value{text: ".git/" + hole, from: in.from}
		}
	}
	if settingsOf(name, rest) {
		return known("")
	}
	return value{text: hole, from: in.from}
}

// settingsOf reports whether a program writes settings of its own for the shell, as
// eval "$(ssh-agent)" and source <(kubectl completion bash) take them.
func settingsOf(name string, rest []Word) bool {
	first := operand(rest).Text
	switch name {
	case "ssh-agent", "dircolors", "lesspipe", "lesspipe.sh", "resize", "locale", "gpg-agent", "keychain", "tset", "vivid", "register-python-argcomplete", "modulecmd", "gnome-keyring-daemon", "dbus-launch":
		return true
	case "pyenv", "rbenv", "nodenv", "jenv", "goenv", "plenv", "direnv", "conda", "mamba", "micromamba", "fnm", "mise", "rtx", "opam", "brew", "starship", "zoxide", "thefuck", "luarocks", "minikube", "docker-machine", "atuin", "pixi", "nvm", "hub", "saml2aws", "aws", "asdf", "chruby", "perl", "cargo", "go":
		switch first {
		case "init", "env", "shellenv", "hook", "shell.bash", "shell.posix", "shell.zsh", "shell", "activate", "docker-env", "path", "alias", "script", "export-credentials", "virtualenv-init", "configure":
			return true
		}
	}
	return slices.ContainsFunc(rest, func(x Word) bool { return strings.Contains(x.Text, "complet") })
}

func isNumber(s string) bool { _, err := strconv.Atoi(s); return err == nil }

func operandAt(args []Word, i int) string {
	if ops := operands(args); i < len(ops) {
		return ops[i].Text
	}
	return ""
}

// texted makes printf write arguments verbatim where it would quote or unescape them.
var texted = strings.NewReplacer("%b", "%s", "%q", "%s")

var octal = regexp.MustCompile(`\\0([0-7]{1,3})`)

func echo(rest []Word) value {
	end, escapes := "\n", false
	for len(rest) > 0 && strings.HasPrefix(rest[0].Text, "-") && filterPattern1.MatchString(rest[0].Text) {
		if strings.Contains(rest[0].Text, "n") {
			end = ""
		}
		escapes = escapes || strings.Contains(rest[0].Text, "e")
		rest = rest[1:]
	}
	v := joined(rest)
	if escapes || strings.Contains(v.text, `\`) && !strings.ContainsAny(v.text, " \n") {
		if text, _, err := expand.Format(new(expand.Config), octal.ReplaceAllString(strings.ReplaceAll(v.text, "%", "%%"), `\$1`), nil); err == nil && escapes {
			v.text = text
		}
	}
	v.text += end
	return v
}

func printf(rest []Word) value {
	if len(rest) > 0 && rest[0].Text == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return known("")
	}
	out, args := known(""), texts(rest[1:])
	for _, x := range rest {
		out.known = out.known && x.Known
	}
	format := texted.Replace(rest[0].Text)
	if strings.Contains(rest[0].Text, "%b") {
		for i := range args {
			if text, _, err := expand.Format(new(expand.Config), octal.ReplaceAllString(strings.ReplaceAll(args[i], "%", "%%"), `\$1`), nil); err == nil {
				args[i] = text
			}
		}
	}
	var b strings.Builder
	for i := 0; i == 0 || len(args) > 0 && i < 4096; i++ {
		text, n, err := expand.Format(new(expand.Config), format, args)
		if err != nil {
			return unknown()
		}
		b.WriteString(text)
		if n == 0 || b.Len() > maxText {
			break
		}
		args = args[min(n, len(args)):]
	}
	out.text = b.String()
	return out
}

func decode(s string, thirtyTwo bool) (string, bool) {
	s = strings.Join(strings.Fields(s), "")
	if thirtyTwo {
		data, err := base32.StdEncoding.DecodeString(strings.ToUpper(s))
		return string(data), err == nil
	}
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	data, err := base64.RawStdEncoding.DecodeString(s)
	return string(data), err == nil && len(data) > 0
}

// tr implements tr for sets of characters and ranges.
func tr(rest []Word, s string) (string, bool) {
	del, ops := false, []string(nil)
	for _, a := range rest {
		switch {
		case a.Text == "-d":
			del = true
		case strings.HasPrefix(a.Text, "-") && len(a.Text) > 1 && len(ops) == 0:
			if strings.ContainsAny(a.Text, "cC") {
				return "", false
			}
			del = del || strings.Contains(a.Text, "d")
		default:
			ops = append(ops, a.Text)
		}
	}
	switch {
	case del && len(ops) >= 1:
		set := trSet(ops[0])
		return strings.Map(func(r rune) rune {
			if slices.Contains(set, r) {
				return -1
			}
			return r
		}, s), true
	case len(ops) == 2:
		from, to := trSet(ops[0]), trSet(ops[1])
		if len(to) == 0 {
			return "", false
		}
		return strings.Map(func(r rune) rune {
			if i := slices.Index(from, r); i >= 0 {
				return to[min(i, len(to)-1)]
			}
			return r
		}, s), true
	}
	return "", false
}

func trSet(s string) (out []rune) {
	s = strings.NewReplacer("[:lower:]", "a-z", "[:upper:]", "A-Z", "[:digit:]", "0-9", "[:space:]", " \t\n", `\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(s)
	r := []rune(s)
	for i := 0; i < len(r); i++ {
		if i+2 < len(r) && r[i+1] == '-' && r[i] <= r[i+2] && r[i+2]-r[i] < 256 {
			for c := r[i]; c <= r[i+2]; c++ {
				out = append(out, c)
			}
			i += 2
			continue
		}
		out = append(out, r[i])
	}
	return out
}

var substitution = regexp.MustCompile(`^s(.)((?:[^\\]|\\.)*)$`)

// sed does plain substitutions, of texts and with expressions that cost little:
// what others would write is unknown.
func sed(rest []Word, s string) (string, bool) {
	ops := []string{}
	for _, a := range rest {
		if a.Text != "-e" && a.Text != "-E" && a.Text != "-r" && a.Text != "-n" {
			ops = append(ops, a.Text)
		}
	}
	if len(ops) != 1 {
		return "", false
	}
	for _, script := range strings.Split(ops[0], ";") {
		script = strings.TrimSpace(script)
		m := substitution.FindStringSubmatch(script)
		if m == nil {
			return "", false
		}
		parts := strings.Split(m[2], m[1])
		if len(parts) < 2 {
			return "", false
		}
		e, err := grep.Compile(parts[0])
		if err != nil || e.Size()*len(s) > grep.PlainSteps {
			return "", false
		}
		re := e.Regexp()
		with := strings.NewReplacer(`\1`, "${1}", `\2`, "${2}", `\3`, "${3}", "&", "${0}", "$", "$$", `\/`, "/").Replace(parts[1])
		if len(parts) > 2 && strings.Contains(parts[2], "g") {
			if (len(s)+1)*(len(with)+1) > 16*maxText { // what it could become
				return "", false
			}
			if s = re.ReplaceAllString(s, with); len(s) > maxText {
				return "", false
			}
		} else if loc := re.FindStringSubmatchIndex(s); loc != nil {
			s = s[:loc[0]] + string(re.ExpandString(nil, with, s, loc)) + s[loc[1]:]
		}
	}
	return s, true
}

// cut does cut -c and cut -d -f with one number or range.
func cut(rest []Word, s string) (string, bool) {
	opts := map[byte]string{}
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if len(a) >= 2 && a[0] == '-' && a[1] != '-' {
			v := a[2:]
			if v == "" && i+1 < len(rest) {
				i++
				v = rest[i].Text
			}
			opts[a[1]] = v
		}
	}
	pick := func(n int, list string) (int, int, bool) {
		lo, hi, ranged := strings.Cut(list, "-")
		a, err := strconv.Atoi(lo)
		if lo == "" {
			a, err = 1, nil
		}
		if err != nil || a < 1 {
			return 0, 0, false
		}
		b := a
		if ranged {
			if b = n; hi != "" {
				if b, err = strconv.Atoi(hi); err != nil {
					return 0, 0, false
				}
			}
		}
		return min(a-1, n), max(min(b, n), min(a-1, n)), true
	}
	var out []string
	for _, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		if list, ok := opts['f']; ok {
			d := opts['d']
			if d == "" {
				d = "\t"
			}
			fields := strings.Split(line, d)
			a, b, ok := pick(len(fields), list)
			if !ok {
				return "", false
			}
			out = append(out, strings.Join(fields[a:b], d))
			continue
		}
		list := opts['c']
		if list == "" {
			list = opts['b']
		}
		a, b, ok := pick(len(line), list)
		if !ok {
			return "", false
		}
		out = append(out, line[a:b])
	}
	return strings.Join(out, "\n") + "\n", true
}

// Patterns of the functions above.
var (
	filterPattern1 = regexp.MustCompile(`^-[neE]+$`)
)
