package shell

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Workspace is where scripts of jails start, and the home of who runs them.
const Workspace = "/workspace"

// value is text that a command writes or a variable holds.
type value struct {
	text string
	// known reports that text is complete. Holes represent unknown parts.
	known bool
	// from are the commands that made it, by index.
	from []int
	// plain reports that the value is one unchanged file that the task did not write.
	plain bool
}

func known(text string) value { return value{text: text, known: true} }

func (v value) word() Word {
	return Word{Text: v.text, Known: v.known && !holed(v.text)}
}

func (v value) with(o value) value {
	if v.text == "" && v.known && len(v.from) == 0 && len(o.text) <= maxText {
		return value{text: o.text, known: o.known, from: slices.Clip(o.from)}
	}
	if o.text == "" && o.known && len(o.from) == 0 && len(v.text) <= maxText {
		return value{text: v.text, known: v.known, from: slices.Clip(v.from)}
	}
	out := value{text: v.text + o.text, known: v.known && o.known, from: append(append([]int(nil), v.from...), o.from...)}
	if len(out.text) > maxText {
		out.text, out.known = hole, false
	}
	return out
}

func unknown(from ...int) value { return value{text: hole, from: from} }

// variable is what the script has set; unsure, when only a branch or a loop did.
type variable struct {
	expand.Variable
	unsure bool
	from   []int // commands whose output it holds
	glob   bool  // it holds names that a wildcard found
}

// state is what a (sub)shell has of its own.
type state struct {
	vars    map[string]variable
	funcs   map[string]*syntax.Stmt
	aliases map[string]string
	// programs maps names to the programs that they run: links, copies, hash -p.
	programs map[string]string
	args     []string // $0, $1, ...
	dir      string
	before   string // the folder of cd -
	home     string // of who runs it
	links    map[string]string
	gits     map[string]string // aliases of git
	fds      map[string]value  // descriptors that are read from
	outs     map[string]string // descriptors that are written to
	outTo    []written         // where everything is written to: exec > file
	// exported reports that programs get variables that the script has set, and that
	// change what they do.
	exported bool
	// foreign reports that code with unknown effects may have set variables.
	foreign bool
	branch  int // above 0 if what is walked may not be run
}

// environment is what every jail has.
var environment = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "IFS": " \t\n",
	"SHELL": "/bin/bash", "BASH": "/bin/bash", "OSTYPE": "linux-gnu", "HOSTTYPE": "x86_64", "MACHTYPE": "x86_64-pc-linux-gnu", "OPTIND": "1",
	"LANG": "C.UTF-8", "TERM": "dumb", "OLDPWD": Workspace,
}

// begin initialises the state of a new shell in a folder.
func (s *state) begin(given string) {
	dir := Workspace
	if strings.HasPrefix(given, "/") {
		dir = path.Clean(given)
	} else if path.Clean("/"+given) != "/" {
		dir = path.Join(Workspace, given)
	}
	s.args, s.dir, s.before, s.home = unnamed, dir, dir, Workspace
}

// unnamed are the arguments of a shell that was given none. The slice must not be
// modified.
var unnamed = []string{"bash"}

// put sets a key of a map, which is made when it gets its first.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// fork is a subshell's: what it sets stays in it.
func (s *state) fork() *state {
	out := *s
	out.vars, out.funcs, out.aliases, out.programs = maps.Clone(s.vars), maps.Clone(s.funcs), maps.Clone(s.aliases), maps.Clone(s.programs)
	return &out
}

func (s *state) set(name, text string, sure bool) {
	put(&s.vars, name, variable{
		Variable: expand.Variable{Set: true, Kind: expand.String, Str: text}, unsure: !sure || s.branch > 0,
	})
}

// abs returns a path as it is from the root, cleaned, with links followed.
func (s *state) abs(p string) string { return resolve(p, s.dir, s.links) }

// env is a state as the expander sees it, and notes what it could not know.
type env struct {
	*state
	// pretend are names that count as unset, because the word gives a default for them.
	pretend map[string]bool
	guess   bool
	glob    bool
	// solid are names that are not empty, or the script ends.
	solid map[string]bool
	from  []int
}

// Get implements expand.Environ.
func (e *env) Get(name string) expand.Variable {
	str := func(s string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: s} }
	if v, ok := e.vars[name]; ok {
		e.guess = e.guess || v.unsure
		e.glob = e.glob || v.glob
		e.from = append(e.from, v.from...)
		return v.Variable
	}
	switch name {
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: e.args[1:]}
	case "#":
		return str(itoa(len(e.args) - 1))
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9":
		if i := int(name[0] - '0'); i < len(e.args) {
			return str(e.args[i])
		}
		return expand.Variable{}
	case "PWD":
		return str(e.dir)
	case "_":
		return str("")
	case "?":
		e.guess = true
		return str("0")
	}
	switch name {
	case "$", "!", "BASHPID", "PPID", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "COLUMNS", "LINES":
		// Some number: nothing else can be meant by it.
		return str("4242")
	case "UID", "EUID":
		return str("1000")
	}
	if strings.HasPrefix(name, "HOME ") {
		if name == "HOME root" {
			return str("/root")
		}
		return str("/home/" + name[5:])
	}
	if name == "HOME" {
		return str(e.home)
	}
	if v, ok := environment[name]; ok {
		return str(v)
	}
	e.guess = true
	if name == "deckhand_unknown" || name == "USER" || name == "HOSTNAME" {
		return str(Hole)
	}
	if e.pretend[name] {
		return expand.Variable{}
	}
	if e.solid[name] || e.foreign {
		return str(Hole)
	}
	return str(Unset)
}

// Each implements expand.Environ.
func (e *env) Each(fn func(string, expand.Variable) bool) {
	for name, v := range e.vars {
		if !fn(name, v.Variable) {
			return
		}
	}
}

// Set implements expand.WriteEnviron, for ${x:=value} and arithmetic.
func (e *env) Set(name string, v expand.Variable) error {
	put(&e.vars, name, variable{Variable: v, unsure: e.branch > 0})
	return nil
}

// config is the expander over a walker's state.
func (w *walker) config(words ...*syntax.Word) (*expand.Config, *env) {
	e := &env{state: w.state}
	for _, word := range words {
		if simple(word) {
			continue
		}
		syntax.Walk(word, func(n syntax.Node) bool {
			if a, ok := n.(*syntax.ArithmExp); ok {
				w.arithmetic(a)
			}
			if p, ok := n.(*syntax.ParamExp); ok && p.Exp != nil && p.Param != nil {
				switch p.Exp.Op {
				case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
					if e.pretend == nil {
						e.pretend = map[string]bool{}
					}
					e.pretend[p.Param.Value] = true
				case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
					if e.solid == nil {
						e.solid = map[string]bool{}
					}
					e.solid[p.Param.Value] = true
				}
			}
			return true
		})
	}
	return &expand.Config{Env: e, CmdSubst: w.substitute, ProcSubst: w.processSubstitute}, e
}

// simple reports whether a word needs no expansion other than removing quotes.
func simple(word *syntax.Word) bool {
	for _, part := range word.Parts {
		switch part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		default:
			return false
		}
	}
	return true
}
