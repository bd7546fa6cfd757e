package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// calls describes how a function continues: which functions it starts unconditionally.
type calls struct {
	to         []string
	multiplies bool
}

// mayBomb reports whether a script may have a function or a loop: a script without the
// words that begin these has none. A backslash at the end of a line may split such a
// word, and so may a byte that shells skip.
func mayBomb(script string) bool {
	for _, part := range [...]string{"while", "until", "for", "function", "\\\n", "\\\r", "\x00"} {
		if strings.Contains(script, part) {
			return true
		}
	}
	for i := strings.IndexByte(script, '('); i >= 0; {
		rest := strings.TrimLeft(script[i+1:], " \t\r")
		if strings.HasPrefix(rest, ")") {
			return true
		}
		next := strings.IndexByte(rest, '(')
		if next < 0 {
			break
		}
		i = len(script) - len(rest) + next
	}
	return false
}

// bombs notes functions of a script that multiply without end, by themselves or
// by one another, and loops that start processes without end.
func (w *walker) bombs(file *syntax.File) {
	graph := map[string]*calls{}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				g := &calls{}
				g.body(n.Body, false)
				graph[n.Name.Value] = g
			}
		case *syntax.WhileClause:
			if endless(n) && floods(n.Do) {
				w.bomb("a loop without end")
			}
		case *syntax.ForClause:
			if c, ok := n.Loop.(*syntax.CStyleLoop); ok && c.Cond == nil && floods(n.Do) {
				w.bomb("a loop without end")
			}
		}
		return true
	})
	for name, g := range graph {
		// It reaches itself, and a function on the way doubles.
		reached, doubles := map[string]bool{}, g.multiplies || count(g.to, graph) > 1
		todo := g.to
		for len(todo) > 0 {
			next := todo[0]
			todo = todo[1:]
			if to := graph[next]; to != nil && !reached[next] {
				reached[next] = true
				doubles = doubles || to.multiplies || count(to.to, graph) > 1
				todo = append(todo, to.to...)
			}
		}
		if reached[name] && doubles {
			w.bomb(name)
		}
	}
}

func (w *walker) bomb(what string) {
	if !slices.Contains(w.out.Bombs, what) {
		w.out.Bombs = append(w.out.Bombs, what)
	}
}

func count(to []string, graph map[string]*calls) (n int) {
	for _, name := range to {
		if graph[name] != nil {
			n++
		}
	}
	return n
}

// body collects the unconditional calls of a function. ended reports whether the function
// may have ended by then.
func (g *calls) body(s *syntax.Stmt, background bool) (ended bool) {
	if s == nil {
		return false
	}
	background = background || s.Background
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return false
		}
		switch name := c.Args[0].Lit(); name {
		case "return", "exit":
			return true
		default:
			g.to = append(g.to, name)
			g.multiplies = g.multiplies || background
		}
		for _, a := range c.Args {
			syntax.Walk(a, func(n syntax.Node) bool {
				if sub, ok := n.(*syntax.CmdSubst); ok {
					g.list(sub.Stmts, background)
					return false
				}
				return true
			})
		}
	case *syntax.Block:
		return g.list(c.Stmts, background)
	case *syntax.Subshell:
		g.list(c.Stmts, background)
	case *syntax.BinaryCmd:
		ended = g.body(c.X, background)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll || always(c.X) {
			return g.body(c.Y, background) || ended
		}
		// What follows && or || may end it.
		probe := &calls{}
		return probe.body(c.Y, false) || ended
	case *syntax.IfClause:
		if len(c.Cond) == 1 && always(c.Cond[0]) {
			return g.list(c.Then, background)
		}
		probe := &calls{}
		for clause := c; clause != nil; clause = clause.Else {
			ended = probe.list(clause.Then, false) || ended
		}
		return ended
	case *syntax.WhileClause:
		if len(c.Cond) == 1 && always(c.Cond[0]) {
			g.list(c.Do, background)
		}
	case *syntax.ForClause:
		if iter, ok := c.Loop.(*syntax.WordIter); ok && len(iter.Items) > 1 && literal(iter.Items) {
			g.list(c.Do, background)
			g.list(c.Do, background)
		} else if ok && len(iter.Items) == 1 {
			g.list(c.Do, background)
		}
	case *syntax.TimeClause:
		return g.body(c.Stmt, background)
	case *syntax.CoprocClause:
		g.body(c.Stmt, true)
	}
	return false
}

func literal(words []*syntax.Word) bool {
	return !slices.ContainsFunc(words, func(x *syntax.Word) bool { return x.Lit() == "" })
}

func (g *calls) list(list []*syntax.Stmt, background bool) bool {
	for _, s := range list {
		if g.body(s, background) {
			return true
		}
	}
	return false
}

// always reports whether a condition holds, whatever there is.
func always(s *syntax.Stmt) bool {
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 || s.Negated {
			return false
		}
		switch c.Args[0].Lit() {
		case "true", ":", "echo", "sleep":
			return true
		case "[", "test":
			return len(c.Args) <= 3 && len(c.Args) > 1 && c.Args[1].Lit() != "" && c.Args[1].Lit() != "-n" && c.Args[1].Lit() != "-z" &&
				(len(c.Args) == 2 || c.Args[2].Lit() == "]")
		}
	case *syntax.ArithmCmd:
		return nodeText(c.X) != "" && nodeText(c.X) != "0" && nodeText(c.X)[0] >= '1' && nodeText(c.X)[0] <= '9'
	}
	return s.Background
}

func endless(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 {
		return false
	}
	if c.Until {
		call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
		return ok && len(call.Args) == 1 && call.Args[0].Lit() == "false"
	}
	return always(c.Cond[0])
}

// floods reports whether a loop's body starts processes and waits for nothing.
func floods(body []*syntax.Stmt) bool {
	started := false
	for _, s := range body {
		if s.Background {
			started = true
			continue
		}
		if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && slices.Contains([]string{"echo", ":", "true", "disown", "printf", "set", "shift"}, call.Args[0].Lit()) {
			continue
		}
		return false
	}
	return started
}
