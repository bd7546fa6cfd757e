package shell

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// walker walks a script as bash would.
type walker struct {
	*state
	out     *Script
	earlier map[string]string // written before the script, by absolute path
	running []string          // script files, as they are nested
	files   map[string]value  // written by the script itself
	via     []string
	host    string
	depth   int
	steps   int
	calls   []string // of functions, as they are nested
	line    int      // of the script that another one holds; 0 for the outermost
	cur     int
	back    bool
	// drawn are the commands whose output the variables of the last words hold.
	drawn []int
}

func itoa(n int) string { return strconv.Itoa(n) }

// nested runs fn one level down; it says no where that is too deep.
func (w *walker) nested(fn func()) {
	if w.depth >= maxDepth {
		w.unclear("it nests deeper than %d", maxDepth)
		return
	}
	w.depth++
	fn()
	w.depth--
}

// script walks a script within the current state; args, when set, are its $0,
// $1 and so on.
func (w *walker) script(text string, args []string, in value) (out value) {
	file := w.parse(text)
	if file == nil {
		return unknown()
	}
	w.nested(func() {
		before, line := w.args, w.line
		if args != nil {
			w.args = args
		}
		if w.depth > 1 {
			w.line = max(w.cur, 1)
		}
		out = w.stmts(file.Stmts, in)
		w.args, w.line = before, line
	})
	return out
}

// inFork walks something in a subshell.
func (w *walker) inFork(fn func() value) value {
	before := w.state
	w.state = before.fork()
	out := fn()
	w.state = before
	return out
}

func (w *walker) stmts(list []*syntax.Stmt, in value) value {
	out := known("")
	for _, s := range list {
		out = out.with(w.stmt(s, in))
	}
	return out
}

func (w *walker) stmt(s *syntax.Stmt, in value) value {
	w.steps++
	if w.steps > maxSteps || len(w.out.Commands) >= maxCommands {
		w.unclear("it comes to more than %d commands", maxCommands)
		return unknown()
	}
	w.cur = int(s.Pos().Line())
	if s.Background && !w.back {
		w.back = true
		defer func() { w.back = false }()
	}
	redirs := w.redirects(s.Redirs)
	if redirs.stdin != nil {
		in = *redirs.stdin
	}
	first := len(w.out.Commands)
	out := w.command(s.Cmd, in, redirs)
	if _, call := s.Cmd.(*syntax.CallExpr); !call && (len(redirs.reads) > 0 || len(redirs.writes) > 0) {
		// Redirections of a block are those of all that is in it.
		if first == len(w.out.Commands) || s.Cmd == nil {
			w.emit(Command{Args: []Word{word(":")}, Reads: redirs.reads, Writes: redirs.writes})
		} else {
			for i := first; i < len(w.out.Commands); i++ {
				w.out.Commands[i].Reads = slices.Concat(w.out.Commands[i].Reads, redirs.reads)
				w.out.Commands[i].Writes = slices.Concat(w.out.Commands[i].Writes, redirs.writes)
			}
		}
	}
	for _, target := range redirs.stdout {
		w.write(target.path, out, target.add)
	}
	if len(redirs.stdout) > 0 {
		return known("")
	}
	return out
}

// redirected is what a statement's redirections come to.
type redirected struct {
	reads, writes []Word
	stdin         *value
	stdout        []written
	dup           bool
}

type written struct {
	path string
	add  bool
}

func (w *walker) redirects(list []*syntax.Redirect) (r redirected) {
	for _, d := range list {
		switch d.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			v := known("")
			if d.Hdoc != nil {
				v = w.document(d)
			}
			r.stdin = &v
		case syntax.WordHdoc:
			v := w.literal(d.Word)
			v.text += "\n"
			r.stdin = &v
		case syntax.DplIn, syntax.DplOut:
			text := w.literal(d.Word)
			r.dup = r.dup || text.text != "1" && text.text != "2" && text.text != "-" || d.N != nil && d.N.Value == "0"
			if d.Op == syntax.DplIn && text.text != "0" {
				v := unknown()
				r.stdin = &v
			}
			if strings.Trim(text.text, "0123456789-") != "" {
				r.writes = append(r.writes, text.word())
			}
		case syntax.RdrIn:
			v := w.literal(d.Word)
			r.reads = append(r.reads, v.word())
			content := w.read(v)
			r.stdin = &content
		case syntax.RdrInOut:
			v := w.literal(d.Word)
			r.reads, r.writes = append(r.reads, v.word()), append(r.writes, v.word())
		default:
			v := w.literal(d.Word)
			r.writes = append(r.writes, v.word())
			if (d.N == nil || d.N.Value == "1") && v.known {
				r.stdout = append(r.stdout, written{v.text, d.Op == syntax.AppOut || d.Op == syntax.AppAll})
			}
		}
	}
	return r
}

// document answers the text of a here-document.
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
	cfg, e := w.config(d.Hdoc)
	text, err := expand.Document(cfg, d.Hdoc)
	if err != nil {
		return unknown()
	}
	return value{text: text, known: !e.guess}
}

// literal expands a word that stays one.
func (w *walker) literal(x *syntax.Word) value {
	if x == nil {
		return known("")
	}
	if text, ok := plainWord(x); ok {
		return known(text)
	}
	cfg, e := w.config(x)
	before := len(w.out.Commands)
	text, err := expand.Literal(cfg, x)
	if err != nil || len(text) > maxText {
		return unknown()
	}
	return value{text: text, known: !e.guess, from: append(w.since(before), e.from...)}
}

func (w *walker) since(before int) (out []int) {
	for i := before; i < len(w.out.Commands); i++ {
		out = append(out, i)
	}
	return out
}

// command walks what a statement is, and answers what it writes.
func (w *walker) command(c syntax.Command, in value, r redirected) (out value) {
	out = known("")
	switch c := c.(type) {
	case nil:
		// Only redirections: $(<file) writes what it reads.
		if r.stdin != nil {
			return *r.stdin
		}
	case *syntax.CallExpr:
		return w.call(c, in, r)
	case *syntax.Block:
		return w.stmts(c.Stmts, in)
	case *syntax.Subshell:
		return w.inFork(func() value { return w.stmts(c.Stmts, in) })
	case *syntax.BinaryCmd:
		return w.binary(c, in)
	case *syntax.IfClause:
		w.branch++
		for clause := c; clause != nil; clause = clause.Else {
			w.stmts(clause.Cond, in)
			out = out.with(w.stmts(clause.Then, in))
		}
		w.branch--
		out.known = false
	case *syntax.WhileClause:
		w.branch++
		w.stmts(c.Cond, in)
		out = w.stmts(c.Do, in)
		w.branch--
		out.known = false
	case *syntax.ForClause:
		return w.loop(c, in)
	case *syntax.CaseClause:
		w.literal(c.Word)
		w.branch++
		for _, item := range c.Items {
			out = out.with(w.stmts(item.Stmts, in))
		}
		w.branch--
		out.known = false
	case *syntax.FuncDecl:
		if c.Name != nil {
			w.funcs[c.Name.Value] = c.Body
		}
	case *syntax.DeclClause:
		w.declare(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return w.stmt(c.Stmt, in)
		}
	case *syntax.CoprocClause:
		return w.stmt(c.Stmt, in)
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause:
		w.inside(c)
	default:
		w.unclear("a form of command that is not understood")
	}
	return out
}

// inside walks the commands that substitutions in an expression hold.
func (w *walker) inside(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.inFork(func() value { return w.stmts(n.Stmts, value{}) })
			return false
		case *syntax.ProcSubst:
			w.inFork(func() value { return w.stmts(n.Stmts, value{}) })
			return false
		}
		return true
	})
}

func (w *walker) binary(c *syntax.BinaryCmd, in value) value {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		before := len(w.out.Commands)
		v := w.inFork(func() value { return w.stmt(c.X, in) })
		v.from = w.since(before)
		// The last part's variables are lost in bash, but for lastpipe: keep them.
		return w.stmt(c.Y, v)
	case syntax.AndStmt, syntax.OrStmt:
		out := w.stmt(c.X, in)
		if c.Op == syntax.OrStmt {
			w.branch++
			defer func() { w.branch-- }()
		}
		return out.with(w.stmt(c.Y, in))
	}
	w.unclear("an operator that is not understood")
	return unknown()
}

// loop walks a for loop once for each of its words.
func (w *walker) loop(c *syntax.ForClause, in value) value {
	out := known("")
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		w.inside(c.Loop)
		w.branch++
		out = w.stmts(c.Do, in)
		w.branch--
		out.known = false
		return out
	}
	var items []Word
	if iter.InPos.IsValid() {
		items = w.words(iter.Items)
	} else {
		for _, a := range w.args[1:] {
			items = append(items, word(a))
		}
	}
	const most = 100
	for i, item := range items {
		if i == most {
			w.unclear("a loop over more than %d words", most)
			break
		}
		text := item.Text
		w.set(iter.Name.Value, text, item.Known && !item.Glob)
		out = out.with(w.stmts(c.Do, in))
	}
	return out
}

func (w *walker) declare(c *syntax.DeclClause) {
	args := []Word{word(c.Variant.Value)}
	for _, a := range c.Args {
		if a.Name != nil {
			w.assign(a)
			args = append(args, word(a.Name.Value+"="+w.vars[a.Name.Value].Str))
		} else if a.Value != nil {
			args = append(args, w.literal(a.Value).word())
		}
	}
	w.emit(Command{Args: args})
}

// assign does what NAME=value does.
func (w *walker) assign(a *syntax.Assign) {
	if a.Naked {
		return
	}
	name := a.Name.Value
	old := w.vars[name]
	if a.Array != nil {
		v := variable{Variable: expand.Variable{Set: true, Kind: expand.Indexed}, unsure: w.branch > 0}
		if a.Append {
			v.List, v.unsure = slices.Clone(old.List), v.unsure || old.unsure
		}
		for _, el := range a.Array.Elems {
			if el.Value == nil {
				continue
			}
			for _, x := range w.words([]*syntax.Word{el.Value}) {
				v.List, v.unsure = append(v.List, x.Text), v.unsure || !x.Known
			}
		}
		w.vars[name] = v
		return
	}
	v := w.literal(a.Value)
	if a.Index != nil {
		i, err := strconv.Atoi(nodeText(a.Index))
		if old.Kind != expand.Indexed {
			old = variable{Variable: expand.Variable{Set: true, Kind: expand.Indexed}}
		}
		if err != nil || i < 0 || i > 256 {
			old.unsure = true
			i = len(old.List)
		}
		old.List = slices.Clone(old.List)
		for len(old.List) <= i {
			old.List = append(old.List, "")
		}
		old.List[i], old.unsure = v.text, old.unsure || !v.known || w.branch > 0
		w.vars[name] = old
		return
	}
	text, sure := v.text, v.known
	if a.Append {
		text, sure = old.Str+text, sure && !old.unsure
	}
	if len(text) > maxText {
		text, sure = hole, false
	}
	w.set(name, text, sure)
	if len(v.from) > 0 {
		x := w.vars[name]
		x.from = v.from
		w.vars[name] = x
	}
}

func nodeText(n syntax.Node) string {
	if x, ok := n.(*syntax.Word); ok {
		return x.Lit()
	}
	return ""
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
// what the command writes.
func (w *walker) processSubstitute(p *syntax.ProcSubst) (string, error) {
	before := len(w.out.Commands)
	name := "/dev/fd/" + itoa(60+before)
	var out value
	w.nested(func() { out = w.inFork(func() value { return w.stmts(p.Stmts, value{}) }) })
	out.from = w.since(before)
	w.keep(name, out)
	return name, nil
}

// keep remembers a file's content.
func (w *walker) keep(name string, v value) {
	if w.files == nil {
		w.files = map[string]value{}
	}
	w.files[name] = v
}

// write notes what is written to a file.
func (w *walker) write(name string, v value, add bool) {
	name = w.abs(name)
	if strings.HasPrefix(name, "/dev/") && name != "/dev/shm" && !strings.HasPrefix(name, "/dev/shm/") {
		return
	}
	if add {
		if old, ok := w.files[name]; ok {
			v = old.with(v)
		} else if old, ok := w.earlier[name]; ok {
			v = known(old).with(v)
		}
	}
	w.keep(name, v)
}

// read answers a file's content, as far as that is known.
func (w *walker) read(name value) value {
	if !name.known {
		return unknown(name.from...)
	}
	name.text = w.abs(name.text)
	if v, ok := w.files[name.text]; ok {
		return v
	}
	if text, ok := w.earlier[name.text]; ok {
		return known(text)
	}
	return unknown()
}

// words expands words to those that a program gets.
func (w *walker) words(list []*syntax.Word) (out []Word) {
	for _, x := range list {
		if text, ok := plainWord(x); ok {
			out = append(out, Word{Text: text, Known: true})
			continue
		}
		cfg, e := w.config(x)
		fields, err := expand.Fields(cfg, x)
		w.drawn = append(w.drawn, e.from...)
		if err != nil {
			out = append(out, Word{Text: hole})
			continue
		}
		wild := unquotedGlob(x)
		for _, f := range fields {
			if len(f) > maxText || len(out) >= maxWords {
				w.unclear("a command is too long")
				return append(out, Word{Text: hole})
			}
			out = append(out, Word{
				Text: f, Known: !e.guess && !holed(f), Glob: wild && strings.ContainsAny(f, "*?["),
			})
		}
	}
	return out
}

// plainWord answers a word that is what it says: most are.
func plainWord(x *syntax.Word) (string, bool) {
	if len(x.Parts) != 1 {
		return "", false
	}
	switch part := x.Parts[0].(type) {
	case *syntax.Lit:
		return part.Value, !strings.ContainsAny(part.Value, "\\{~*?[") && !holed(part.Value)
	case *syntax.SglQuoted:
		return part.Value, !part.Dollar
	case *syntax.DblQuoted:
		if len(part.Parts) == 1 {
			lit, ok := part.Parts[0].(*syntax.Lit)
			return litValue(lit), ok && !strings.Contains(litValue(lit), "\\")
		}
	}
	return "", false
}

func litValue(lit *syntax.Lit) string {
	if lit == nil {
		return ""
	}
	return lit.Value
}

// unquotedGlob says that wildcards in what a word comes to are filled in.
func unquotedGlob(x *syntax.Word) bool {
	for _, p := range x.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
		case *syntax.Lit:
			escaped := false
			for _, r := range p.Value {
				if !escaped && strings.ContainsRune("*?[", r) {
					return true
				}
				escaped = !escaped && r == '\\'
			}
		default:
			return true
		}
	}
	return false
}
