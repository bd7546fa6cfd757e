package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// sshOptions are the options of ssh that take a value.
const sshOptions = "bcDEeFIiJLlmOopQRSWw"

// ssh walks a command that runs on another machine.
func (w *walker) ssh(rest []Word, in value, at int) value {
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if strings.HasPrefix(a, "-") && len(a) > 1 {
			for j := 1; j < len(a); j++ {
				if strings.IndexByte(sshOptions, a[j]) < 0 {
					continue
				}
				v := Word{Text: a[j+1:], Known: rest[i].Known}
				if v.Text == "" {
					if i++; i < len(rest) {
						v = rest[i]
					}
				}
				if a[j] == 'o' {
					key, text, ok := strings.Cut(v.Text, "=")
					if !ok {
						key, text, _ = strings.Cut(v.Text, " ")
					}
					switch strings.ToLower(strings.TrimSpace(key)) {
					case "proxycommand", "localcommand", "knownhostscommand":
						w.code("ssh "+key, value{text: text, known: v.Known}, nil, value{})
					}
				}
				break
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

func after(args []Word, i int) []Word {
	if i >= len(args) {
		return nil
	}
	return args[i:]
}

// xargsOptions describes the options of xargs and parallel.
var xargsOptions = map[string]wrapper{
	"xargs": {
		takes: "adEILnPs", glued: "eil", long: list("--arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"),
		flags: list("--null --eof --replace --max-lines --no-run-if-empty --verbose --interactive --exit --open-tty --show-limits"),
	},
	"parallel": {
		takes: "aCdEIjJLnNPsSU", glued: "il", long: list("--arg-file --colsep --delimiter --jobs --joblog --results --tmpdir --timeout --retries --delay --sshlogin --sshloginfile --workdir --wd --header --max-args --max-procs --max-replace-args --load --memfree --nice --env --basefile --return --transferfile --halt --tagstring --shuf --block --recstart --recend"),
		flags: list("--keep-order --verbose --dry-run --bar --progress --eta --line-buffer --lb --ungroup --group --tag --pipe --null --no-run-if-empty --will-cite --quote --xargs --link --plus --tty --resume --citation --semaphore --fg --bg --wait --silent"),
	},
}

// xargs walks the command that xargs runs with the words that it reads.
func (w *walker) xargs(name string, rest []Word, in value, at int) value {
	replace, input, split := "", Word{}, ""
	spec := xargsOptions[name]
	inner := spec.parse(rest).inner
	own := rest[:len(rest)-len(inner)]
	for i, a := range own {
		next := Word{}
		if i+1 < len(own) {
			next = own[i+1]
		} else if len(inner) > 0 {
			next = inner[0]
		}
		switch {
		case a.Text == "-I" || a.Text == "-J":
			replace = next.Text
		case strings.HasPrefix(a.Text, "-I"):
			replace = a.Text[2:]
		case a.Text == "-i" || a.Text == "--replace":
			replace = "{}"
		case strings.HasPrefix(a.Text, "-i") || strings.HasPrefix(a.Text, "--replace="):
			replace = strings.TrimPrefix(strings.TrimPrefix(a.Text, "--replace="), "-i")
		case a.Text == "-a" || a.Text == "--arg-file":
			input = next
		case strings.HasPrefix(a.Text, "--arg-file="):
			input = Word{Text: a.Text[len("--arg-file="):], Known: a.Known}
		case a.Text == "-d" || a.Text == "--delimiter":
			split = next.Text
		case strings.HasPrefix(a.Text, "-d") && !strings.HasPrefix(a.Text, "--"):
			split = a.Text[2:]
		}
	}
	if input.Text != "" {
		in = w.read(value{text: input.Text, known: input.Known})
	}
	if name == "parallel" {
		if i := slices.IndexFunc(inner, func(x Word) bool { return x.Text == ":::" }); i >= 0 {
			in, inner = joined(inner[i+1:]), inner[:i]
		}
		replace = "{}"
	}
	var fed []Word
	// With a text to replace, xargs takes whole lines.
	blanks := replace == "" || name == "parallel"
	if in.known && !holed(in.text) {
		for _, f := range strings.FieldsFunc(in.text, func(r rune) bool {
			return r == '\n' || r == 0 || blanks && (r == ' ' || r == '\t') || split != "" && strings.ContainsRune(split, r)
		}) {
			fed = append(fed, word(strings.Trim(f, `"'`)))
		}
	} else {
		for _, f := range strings.Fields(in.text) {
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
	args := make([]Word, 0, len(inner))
	replaced := false
	for _, a := range inner {
		// A replacement that is a whole word yields one word per word that is read; one
		// inside a word yields all of them.
		if replace != "" && a.Text == replace && len(fed) > 0 {
			args, replaced = append(args, fed...), true
			continue
		}
		args = append(args, a)
		if i := len(args) - 1; replace != "" && strings.Contains(args[i].Text, replace) && len(fed) > 0 {
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
	out := w.inner(name, args, value{known: true}, redirected{}, at)
	for i := before; i < len(w.out.Commands); i++ {
		w.out.Commands[i].From = append(w.out.Commands[i].From, in.from...)
	}
	return out
}

// find walks what -exec and similar options run: the folders where find searches
// represent the files that it finds.
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
	printed := known("")
	for _, r := range roots {
		if text := r.Text; strings.HasPrefix(text, "-") {
			printed.text += hole + "\n"
		} else {
			printed.text += strings.TrimSuffix(text, "/") + "/" + hole + "\n"
		}
	}
	printed.known, printed.from = false, []int{at}
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
				w.inner("find "+a, inner, in, redirected{}, at)
			}
		}
	}
	return printed
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
func (w *walker) readInto(name string, rest []Word, in value) value {
	var names []string
	array := false
	for i := 0; i < len(rest); i++ {
		a := rest[i].Text
		if strings.HasPrefix(a, "-") {
			array = array || strings.Contains(a, "a") && name == "read"
			if len(a) == 2 && (name == "read" && strings.ContainsAny(a[1:], "dinNptu") || name != "read" && strings.ContainsAny(a[1:], "dnOscCu")) {
				i++
			}
			continue
		}
		names = append(names, a)
	}
	line, _, _ := strings.Cut(in.text, "\n")
	separators := " \t"
	if v, ok := w.vars["IFS"]; ok && !v.unsure {
		separators = strings.ReplaceAll(v.Str, "\n", "")
	}
	if name != "read" {
		// All lines, as an array.
		v := variable{Variable: expand.Variable{Set: true, Kind: expand.Indexed, List: strings.Split(strings.TrimSuffix(in.text, "\n"), "\n")}, unsure: !in.known || w.branch > 0, from: in.from}
		if len(names) == 0 {
			names = []string{"MAPFILE"}
		}
		put(&w.vars, names[0], v)
		return known("")
	}
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	fields := []string{line}
	if separators != "" {
		fields = strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(separators, r) })
	}
	if array {
		put(&w.vars, names[0], variable{Variable: expand.Variable{Set: true, Kind: expand.Indexed, List: fields}, unsure: !in.known || w.branch > 0, from: in.from})
		return known("")
	}
	for i, name := range names {
		w.subscript(name)
		v := ""
		switch {
		case i == len(names)-1 && i < len(fields):
			v = strings.Join(fields[i:], string(append([]rune(separators), ' ')[0]))
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
