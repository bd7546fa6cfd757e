package shell

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// walker walks a script as bash would.
type walker struct {
	*state
	out         *Script
	earlier     Record                    // what was written before the script
	looks       Look                      // into what was changed before it
	running     []string                  // script files, as they are nested
	files       map[string]value          // written by the script itself
	trees       map[string]value          // folders that it brought from elsewhere
	sinks       map[string][]*syntax.Stmt // of >(command), by the name of the file
	substituted int
	now         value // what the command that is walked reads
	via         []string
	// within is one more than the index of the command that runs the next as it is.
	within int
	host   string
	depth  int
	steps  int
	calls  []string // of functions, as they are nested
	line   int      // of the script that another one holds; 0 for the outermost
	cur    int
	back   bool
	// reread counts the scripts with parts that are not known, as they are nested.
	reread int
	// loaded are files of code that were inspected besides a program's own.
	loaded []string
	// drawn are the commands whose output the variables of the last words hold.
	drawn []int
	// room is for how many commands there should be room from the beginning.
	room int
}

func itoa(n int) string { return strconv.Itoa(n) }

// nested runs fn one level down; at the limit it records that the script is too deep.
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
		to := w.outTo
		v := w.stmt(s, in)
		if len(to) == 0 {
			out = out.with(v)
			continue
		}
		for _, target := range to {
			w.write(target.path, v, true)
		}
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
	sinks := w.substituted
	redirs := w.redirects(s.Redirs)
	if redirs.stdin != nil {
		in = *redirs.stdin
	} else if v, ok := w.fds["0"]; ok && in.text == "" && len(in.from) == 0 {
		in = v
	}
	if len(redirs.opened) > 0 {
		before := w.fds
		w.fds = maps.Clone(before)
		if w.fds == nil {
			w.fds = map[string]value{}
		}
		maps.Copy(w.fds, redirs.opened)
		defer func() {
			if call, ok := s.Cmd.(*syntax.CallExpr); !ok || len(call.Args) != 1 || call.Args[0].Lit() != "exec" {
				w.fds = before
			}
		}()
	}
	first := len(w.out.Commands)
	out := w.command(s.Cmd, in, redirs)
	if _, call := s.Cmd.(*syntax.CallExpr); !call && (len(redirs.reads) > 0 || len(redirs.writes) > 0) {
		// The redirections of a block are its own; connections are those of all that is
		// in it.
		end := len(w.out.Commands)
		w.emit(Command{Args: []Word{word(":")}, Reads: redirs.reads, Writes: redirs.writes, Input: out.word(), From: w.since(first)})
		if r := redirs.connections(); len(r.reads)+len(r.writes) > 0 {
			for i := first; i < end; i++ {
				w.out.Commands[i].Reads = slices.Concat(w.out.Commands[i].Reads, r.reads)
				w.out.Commands[i].Writes = slices.Concat(w.out.Commands[i].Writes, r.writes)
			}
		}
	}
	for _, target := range redirs.stdout {
		w.write(target.path, out, target.add)
	}
	if len(w.sinks) > 0 {
		w.flush(sinks, w.since(first))
	}
	if len(redirs.stdout) > 0 {
		return known("")
	}
	return out
}

// literal expands a word that stays a single one.
func (w *walker) literal(x *syntax.Word) value {
	if x == nil {
		return known("")
	}
	if text, ok := plainWord(x); ok {
		return known(text)
	}
	if v, ok := w.quick(x, false); ok {
		return value{text: v.Text, known: v.Known}
	}
	cfg, e := w.config(x)
	before := len(w.out.Commands)
	text, err := expand.Literal(cfg, x)
	if err != nil || len(text) > maxText {
		return unknown()
	}
	return value{text: text, known: !e.guess, from: append(w.since(before), e.from...)}
}

func (w *walker) since(before int) []int {
	if before >= len(w.out.Commands) {
		return nil
	}
	out := make([]int, len(w.out.Commands)-before)
	for i := range out {
		out[i] = before + i
	}
	return out
}

// command walks a statement's command, and returns its output.
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
		if lines := strings.SplitAfter(strings.TrimSuffix(in.text, "\n"), "\n"); readsLines(c) && in.known && len(lines) > 1 && len(lines) <= maxItems {
			for _, line := range lines {
				v := value{text: line, known: true, from: in.from}
				w.stmts(c.Cond, v)
				out = out.with(w.stmts(c.Do, v))
			}
			return out
		}
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
			put(&w.funcs, c.Name.Value, c.Body)
		}
	case *syntax.DeclClause:
		w.declare(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return w.stmt(c.Stmt, in)
		}
	case *syntax.CoprocClause:
		first := len(w.out.Commands)
		v := w.stmt(c.Stmt, in)
		v.from = append(v.from, w.since(first)...)
		w.persist(redirected{opened: map[string]value{"63": v}})
		// What is written to its other descriptor it reads.
		sink := known("/dev/fd/62")
		w.opens(&syntax.Lit{Value: "62"}, sink)
		if w.sinks == nil {
			w.sinks = map[string][]*syntax.Stmt{}
		}
		w.sinks[sink.text] = []*syntax.Stmt{c.Stmt}
		name := "COPROC"
		if c.Name != nil {
			name = c.Name.Lit()
		}
		put(&w.vars, name, variable{Variable: expand.Variable{Set: true, Kind: expand.Indexed, List: []string{"63", "62"}}})
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause:
		w.inside(c)
		w.arithmetic(c)
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
	w.drawn = nil
	before := len(w.out.Commands)
	if iter.InPos.IsValid() {
		items = w.words(iter.Items)
	} else {
		for _, a := range w.args[1:] {
			items = append(items, word(a))
		}
	}
	drawn := append(w.since(before), w.drawn...)
	for _, item := range items {
		w.set(iter.Name.Value, item.Text, item.Known && !item.Glob)
		v := w.vars[iter.Name.Value]
		v.from, v.glob = drawn, item.Glob
		w.vars[iter.Name.Value] = v
		out = out.with(w.stmts(c.Do, in))
	}
	return out
}

// maxItems is up to how many similar words of a loop, or lines of a text, are walked one
// by one.
const maxItems = 100

// readsLines reports whether a loop reads its input line by line.
func readsLines(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 || c.Until {
		return false
	}
	call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && call.Args[0].Lit() == "read"
}

// arithmetic walks the subscripts that the values of variables hold: bash takes
// them as expressions.
func (w *walker) arithmetic(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		name := ""
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Param != nil {
				name = n.Param.Value
			}
		case *syntax.Word:
			if name = n.Lit(); name == "" {
				if text, ok := plainWord(n); ok {
					w.subscript(text)
				}
			}
		}
		if v, ok := w.vars[name]; ok {
			w.subscript(v.Str)
		}
		return true
	})
}

func (w *walker) declare(c *syntax.DeclClause) {
	args := []Word{word(c.Variant.Value)}
	flags := ""
	for _, a := range c.Args {
		if a.Name == nil && a.Value != nil && strings.HasPrefix(a.Value.Lit(), "-") {
			flags += a.Value.Lit()
		}
	}
	for _, a := range c.Args {
		if a.Name != nil {
			if a.Naked {
				w.subscript(a.Name.Value)
			}
			delete(w.vars, nameless(a, flags))
			w.assign(a)
			if strings.Contains(flags, "n") {
				v := w.vars[a.Name.Value]
				v.Kind = expand.NameRef
				put(&w.vars, a.Name.Value, v)
			} else {
				v := w.vars[a.Name.Value]
				w.reaches(a.Name.Value, value{text: v.Str, known: !v.unsure})
			}
			args = append(args, word(a.Name.Value+"="+w.vars[a.Name.Value].Str))
		} else if a.Value != nil {
			x := w.literal(a.Value).word()
			w.subscript(x.Text)
			args = append(args, x)
		}
	}
	w.emit(Command{Args: args})
}

// nameless is the name of a reference that is made again.
func nameless(a *syntax.Assign, flags string) string {
	if strings.Contains(flags, "n") && !a.Naked {
		return a.Name.Value
	}
	return ""
}

// assign does what NAME=value does.
func (w *walker) assign(a *syntax.Assign) {
	if a.Naked {
		return
	}
	name := a.Name.Value
	old := w.vars[name]
	for i := 0; i < 8 && old.Kind == expand.NameRef && old.Set; i++ {
		name = old.Str
		old = w.vars[name]
	}
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
		put(&w.vars, name, v)
		return
	}
	v := w.literal(a.Value)
	if a.Index != nil {
		w.inside(a.Index)
		w.arithmetic(a.Index)
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
		put(&w.vars, name, old)
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
