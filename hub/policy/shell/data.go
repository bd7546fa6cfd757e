package shell

import (
	"io"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// The functions below track data: through redirections, descriptors, here-documents,
// substitutions and files.

// redirected is what a statement's redirections come to.
type redirected struct {
	reads, writes []Word
	stdin         *value
	stdout        []written
	// opened are other descriptors that are read from.
	opened map[string]value
	dup    bool
}

type written struct {
	path string
	add  bool
}

// connections returns the redirections that a program passes on to the program that it
// runs, as far as they matter: those to other machines.
func (r redirected) connections() (out redirected) {
	socket := func(x Word) bool {
		return !strings.HasPrefix(x.Text, "/dev/tcp/") && !strings.HasPrefix(x.Text, "/dev/udp/")
	}
	out.reads = slices.DeleteFunc(slices.Clone(r.reads), socket)
	out.writes = slices.DeleteFunc(slices.Clone(r.writes), socket)
	out.dup = r.dup
	return out
}

// reading notes what a descriptor is read from.
func (r *redirected) reading(n *syntax.Lit, v value) {
	if n == nil || n.Value == "0" {
		r.stdin = &v
		return
	}
	if r.opened == nil {
		r.opened = map[string]value{}
	}
	r.opened[n.Value] = v
}

func (w *walker) redirects(list []*syntax.Redirect) (r redirected) {
	for _, d := range list {
		switch d.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			v := known("")
			if d.Hdoc != nil {
				v = w.document(d)
			}
			r.reading(d.N, v)
		case syntax.WordHdoc:
			v := w.literal(d.Word)
			v.text += "\n"
			r.reading(d.N, v)
		case syntax.DplIn, syntax.DplOut:
			text := w.literal(d.Word)
			r.dup = r.dup || text.text != "1" && text.text != "2" && text.text != "-" || d.N != nil && d.N.Value == "0"
			from := strings.TrimSuffix(text.text, "-")
			if v, ok := w.fds[from]; ok && (d.Op == syntax.DplIn || d.N != nil && d.N.Value == "0") {
				r.reading(d.N, v)
			} else if d.Op == syntax.DplIn && from != "0" && from != "" {
				r.reading(d.N, unknown())
			}
			if strings.Trim(text.text, "0123456789-") != "" {
				r.writes = append(r.writes, text.word())
				r.stdout = append(r.stdout, written{path: text.text})
			} else if to, ok := w.outs[from]; ok && d.Op == syntax.DplOut && (d.N == nil || d.N.Value == "1") {
				r.stdout = append(r.stdout, written{to, true})
			}
		case syntax.RdrIn:
			v := w.literal(d.Word)
			r.reads = append(r.reads, v.word())
			r.reading(d.N, w.read(v))
		case syntax.RdrInOut:
			v := w.literal(d.Word)
			r.reads, r.writes = append(r.reads, v.word()), append(r.writes, v.word())
			r.reading(d.N, w.read(v))
			w.opens(d.N, v)
		default:
			v := w.literal(d.Word)
			r.writes = append(r.writes, v.word())
			if (v.known || named(v.text)) && (d.N == nil || d.N.Value == "1") {
				r.stdout = append(r.stdout, written{v.text, d.Op == syntax.AppOut || d.Op == syntax.AppAll})
			} else {
				w.opens(d.N, v)
			}
		}
	}
	return r
}

// opens notes which file a descriptor writes to.
func (w *walker) opens(n *syntax.Lit, to value) {
	if n == nil || !to.known {
		return
	}
	w.outs = maps.Clone(w.outs)
	if w.outs == nil {
		w.outs = map[string]string{}
	}
	w.outs[n.Value] = to.text
}

// persist keeps the redirections of an exec without a command: they hold for all
// that follows.
func (w *walker) persist(r redirected) {
	w.fds = maps.Clone(w.fds)
	if w.fds == nil {
		w.fds = map[string]value{}
	}
	maps.Copy(w.fds, r.opened)
	if r.stdin != nil {
		w.fds["0"] = *r.stdin
	}
	if len(r.stdout) > 0 {
		w.outTo = r.stdout
	}
}

// document returns the text of a here-document.
func (w *walker) document(d *syntax.Redirect) value {
	quoted := false
	for _, p := range d.Word.Parts {
		if lit, ok := p.(*syntax.Lit); !ok || strings.Contains(lit.Value, "\\") {
			quoted = true
		}
	}
	if quoted {
		var b strings.Builder
		for _, p := range d.Hdoc.Parts {
			if lit, ok := p.(*syntax.Lit); ok {
				b.WriteString(lit.Value)
			}
		}
		return known(b.String())
	}
	return w.expandDocument(d.Hdoc)
}

func (w *walker) expandDocument(doc *syntax.Word) value {
	cfg, e := w.config(doc)
	before := len(w.out.Commands)
	text, err := expand.Document(cfg, doc)
	if err != nil || len(text) > maxText {
		return unknown(w.since(before)...)
	}
	return value{text: text, known: !e.guess && !holed(text), from: append(w.since(before), e.from...)}
}

// prompted walks the substitutions of a text that bash expands when it uses it,
// such as PS4 and the subscripts of arrays.
func (w *walker) prompted(text string) {
	if !strings.Contains(text, "$(") && !strings.Contains(text, "`") {
		return
	}
	doc, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Document(strings.NewReader(again.Replace(text)))
	if err != nil {
		w.opaque("text that bash expands, and that cannot be read: %v", err)
		return
	}
	w.nested(func() { w.inside(doc) })
}

// substitute implements expand.Config.CmdSubst.
func (w *walker) substitute(to io.Writer, c *syntax.CmdSubst) error {
	out := unknown()
	w.nested(func() { out = w.inFork(func() value { return w.stmts(c.Stmts, known("")) }) })
	text := out.text
	if !out.known && !holed(text) {
		text += hole
	}
	_, err := io.WriteString(to, text)
	return err
}

// processSubstitute implements expand.Config.ProcSubst: <(command) is a file with
// what the command writes, and >(command) one that the command reads.
func (w *walker) processSubstitute(p *syntax.ProcSubst) (string, error) {
	before := len(w.out.Commands)
	w.substituted++
	name := sinkName(w.substituted)
	if p.Op == syntax.CmdOut {
		if w.sinks == nil {
			w.sinks = map[string][]*syntax.Stmt{}
		}
		w.sinks[name] = p.Stmts
		return name, nil
	}
	var out value
	w.nested(func() { out = w.inFork(func() value { return w.stmts(p.Stmts, value{}) }) })
	out.from = append(out.from, w.since(before)...)
	w.keep(name, out)
	return name, nil
}

// drain walks the commands that read what was written to a >(command).
func (w *walker) drain(name string, v value) bool {
	list, ok := w.sinks[name]
	if !ok {
		return false
	}
	open := slices.ContainsFunc(w.outTo, func(t written) bool { return t.path == name })
	for _, to := range w.outs {
		open = open || to == name
	}
	// While they are walked, what they write is not given to them again.
	delete(w.sinks, name)
	w.nested(func() { w.inFork(func() value { return w.stmts(list, v) }) })
	if open {
		w.sinks[name] = list
	}
	return true
}

// flush walks the commands of each >(command) that was made since a while, and to
// which something was written that nobody knows.
func (w *walker) flush(since int, from []int) {
	for n := since + 1; n <= w.substituted && len(w.sinks) > 0; n++ {
		name := sinkName(n)
		if !slices.ContainsFunc(w.outTo, func(t written) bool { return t.path == name }) {
			w.drain(name, unknown(from...))
		}
	}
}

func sinkName(n int) string { return "/dev/fd/" + itoa(60+n) }

// named reports whether a path that is not wholly known names one file all the same.
func named(name string) bool { return strings.HasPrefix(name, "/tmp/tmp."+hole) }

// keep remembers a file's content.
func (w *walker) keep(name string, v value) {
	if w.files == nil {
		w.files = map[string]value{}
	}
	if len(w.files) < maxRecorded {
		w.files[name] = v
	}
}

// brought notes that a folder came from elsewhere as a whole.
func (w *walker) brought(dir string, from ...int) {
	if w.trees == nil {
		w.trees = map[string]value{}
	}
	w.trees[dir] = unknown(from...)
}

// write notes what is written to a file.
func (w *walker) write(name string, v value, add bool) {
	if w.drain(name, v) {
		return
	}
	name = w.abs(name)
	if strings.HasPrefix(name, "/dev/") && name != "/dev/shm" && !strings.HasPrefix(name, "/dev/shm/") {
		return
	}
	if add {
		if old, ok := w.content(name); ok {
			v = old.with(v)
		}
	}
	w.keep(name, v)
}

// read returns a file's content, as far as that is known.
func (w *walker) read(name value) value {
	if !name.known {
		// A name that is made up, such as that of mktemp, is still the same name.
		if v, ok := w.content(w.abs(name.text)); ok && named(name.text) {
			return v
		}
		return unknown(name.from...)
	}
	switch name.text {
	case "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0":
		return w.now
	}
	if n, ok := strings.CutPrefix(name.text, "/dev/fd/"); ok {
		if v, ok := w.fds[n]; ok {
			return v
		}
	}
	if v, ok := w.content(w.abs(name.text)); ok {
		return v
	}
	return unknown()
}
