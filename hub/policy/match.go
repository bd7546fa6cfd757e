package policy

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// answer of a match: what cannot be known is maybe.
type answer int

const (
	no answer = iota
	maybe
	yes
)

func either(a, b answer) answer { return max(a, b) }
func both(a, b answer) answer   { return min(a, b) }

// Glob is a pattern of * (within a part), ** (over parts), ? and [...].
type Glob struct {
	text string
	re   *regexp.Regexp
}

// newGlob makes a pattern; whole says that * goes over slashes too.
func newGlob(pattern string, whole bool) (Glob, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			if strings.HasPrefix(pattern[i:], "**/") && !whole {
				b.WriteString(`(?:.*/)?`)
				i += 2
			} else if strings.HasPrefix(pattern[i:], "**") || whole {
				b.WriteString(`.*`)
				if strings.HasPrefix(pattern[i:], "**") {
					i++
				}
			} else {
				b.WriteString(`[^/]*`)
			}
		case '?':
			b.WriteString(`[^/]`)
		default:
			_, size := regexp.QuoteMeta(string(c)), 1
			b.WriteString(regexp.QuoteMeta(pattern[i : i+size]))
		}
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	return Glob{pattern, re}, err
}

func (g Glob) match(s string) bool {
	return g.re == nil && g.text == s || g.re != nil && g.re.MatchString(s)
}

// fits answers whether a word fits, where parts of it may not be known.
func (g Glob) fits(w shell.Word) answer {
	if w.Known && !w.Glob {
		if g.re == nil && g.text == w.Text || g.re != nil && g.re.MatchString(w.Text) {
			return yes
		}
		return no
	}
	if g.text == "*" || g.text == "**" {
		return yes
	}
	// What is known of it must not be against it.
	begin := w.Text
	if i := strings.IndexAny(begin, shell.Hole+shell.Unset+"*?["); i >= 0 {
		begin = begin[:i]
	}
	fixed := g.text
	if i := strings.IndexAny(fixed, "*?["); i >= 0 {
		fixed = fixed[:i]
	}
	if n := min(len(begin), len(fixed)); begin[:n] != fixed[:n] && !(len(w.Text) == 0) {
		return no
	}
	return maybe
}

func anyGlob(globs []Glob, s string) bool {
	return slices.ContainsFunc(globs, func(g Glob) bool { return g.match(s) })
}

// unit is one part of a call: a simple command, or the whole call.
type unit struct {
	label   string
	command *shell.Command
	args    map[string]any
	paths   []shell.Word
	hosts   []shell.Word
	writes  []shell.Word
	// neutral parts do nothing of their own.
	neutral bool
}

// pathKeys and hostKeys are the arguments of tools that are paths and addresses.
var (
	pathKeys = []string{"path", "from", "to", "source", "target", "destination", "paths", "file", "files", "cwd", "folder"}
	hostKeys = []string{"url", "host", "address", "urls"}
)

// neutral are programs that do nothing but run another, which is decided too, or
// change nothing outside the script.
var neutral = []string{
	"timeout", "nohup", "nice", "ionice", "time", "command", "builtin", "stdbuf", "setsid", "eval", "xargs", "cd", "pushd", "popd", "true", "false", ":", "set", "shift", "local", "test", "[", "wait", "exit", "return",
	"break", "continue", "read", "trap",
}

func unitsOf(c Call) []*unit {
	if c.script == nil {
		u := &unit{args: c.Arguments}
		for _, key := range pathKeys {
			for _, s := range stringsOf(c.Arguments[key]) {
				u.paths = append(u.paths, shell.Word{Text: abs(s, shell.Workspace), Known: true})
			}
		}
		for _, key := range hostKeys {
			for _, s := range stringsOf(c.Arguments[key]) {
				if h := hostOf(s); h != "" {
					u.hosts = append(u.hosts, shell.Word{Text: h, Known: true})
				}
			}
		}
		return []*unit{u}
	}
	out := make([]*unit, 0, len(c.script.Commands)+1)
	for i := range c.script.Commands {
		cmd := &c.script.Commands[i]
		u := &unit{label: shorten(cmd.String()), command: cmd, args: c.Arguments}
		for _, r := range cmd.Reads {
			u.paths = append(u.paths, absWord(r, cmd.Dir))
		}
		for _, w := range cmd.Writes {
			u.paths, u.writes = append(u.paths, absWord(w, cmd.Dir)), append(u.writes, absWord(w, cmd.Dir))
		}
		for j, a := range cmd.Args {
			if j == 0 {
				continue
			}
			t := a.Text
			if strings.HasPrefix(t, "-") {
				_, v, ok := strings.Cut(t, "=")
				if !ok {
					continue
				}
				t = v
			}
			if h := hostOf(t); h != "" {
				u.hosts = append(u.hosts, shell.Word{Text: h, Known: !strings.ContainsAny(h, shell.Hole+shell.Unset)})
				continue
			}
			u.paths = append(u.paths, absWord(shell.Word{Text: t, Known: a.Known, Glob: a.Glob}, cmd.Dir))
		}
		if cmd.Host != "" {
			u.hosts = append(u.hosts, shell.Word{Text: cmd.Host, Known: !strings.ContainsAny(cmd.Host, shell.Hole+shell.Unset)})
		}
		name := cmd.Name()
		shellWithScript := shell.Language(name) == "shell" && cmd.Language == "" && len(cmd.Args) > 1
		u.neutral = len(cmd.Writes) == 0 && len(cmd.Env) == 0 && (slices.Contains(neutral, name) || shellWithScript)
		out = append(out, u)
	}
	if len(out) == 0 {
		out = append(out, &unit{args: c.Arguments, command: &shell.Command{}})
	}
	return out
}

func shorten(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

func stringsOf(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

func abs(p, dir string) string {
	if strings.HasPrefix(p, "/") {
		return path.Clean(p)
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(shell.Workspace, rest)
	}
	return path.Join(dir, p)
}

func absWord(w shell.Word, dir string) shell.Word {
	if strings.HasPrefix(w.Text, shell.Hole) || strings.HasPrefix(w.Text, shell.Unset) {
		return w // it may begin anywhere
	}
	w.Text = abs(w.Text, dir)
	w.Known = w.Known && !strings.ContainsAny(dir, shell.Hole+shell.Unset)
	return w
}

// hostOf answers the host of a URL, or of user@host:path; "" for what is none.
func hostOf(s string) string {
	if strings.Contains(s, "://") {
		if u, err := url.Parse(s); err == nil && u.Hostname() != "" {
			return strings.ToLower(u.Hostname())
		}
		_, rest, _ := strings.Cut(s, "://")
		rest, _, _ = strings.Cut(rest, "/")
		return strings.ToLower(rest)
	}
	if user, rest, ok := strings.Cut(s, "@"); ok && user != "" && !strings.ContainsAny(user, "/ ") {
		host, _, colon := strings.Cut(rest, ":")
		if colon && !strings.ContainsAny(host, "/ ") {
			return strings.ToLower(host)
		}
	}
	return ""
}

// Rule is one rule of a policy.
type Rule struct {
	Name   string
	Effect Effect
	Reason string
	// Line of the file.
	Line int

	Tools      []Glob
	Categories []string
	Agents     []Glob
	Labels     map[string]Glob
	Times      *Times
	// Commands are prefixes of simple commands, by words.
	Commands [][]Glob
	Paths    []Glob
	Hosts    []Glob
	Args     map[string][]Glob
	// Exact is a digest of the arguments that it is for; nil for any.
	Exact []byte
	// Shape is how calls look that it is for; "" for any.
	Shape string
	// Answered says that a person gave it as the answer to an approval.
	Answered bool
	// Until is when the rule ends; zero for never.
	Until time.Time
}

// Times is when a rule holds.
type Times struct {
	Days     [7]bool // Sunday first
	From, To int     // minutes of the day; To may be below From
	Zone     *time.Location
}

func (t *Times) holds(at time.Time) bool {
	at = at.In(t.Zone)
	minute, day := at.Hour()*60+at.Minute(), at.Weekday()
	if t.From <= t.To {
		return t.Days[day] && minute >= t.From && minute < t.To
	}
	// Over midnight: the early hours belong to the day before.
	if minute >= t.From {
		return t.Days[day]
	}
	return minute < t.To && t.Days[(day+6)%7]
}

func (r *Rule) why(m answer) string {
	why := r.Reason
	if why == "" {
		why = "rule " + r.Name + " says " + string(r.Effect)
	}
	if m == maybe {
		why += " (what the command is cannot be known)"
	}
	return why
}

// applies says that a rule is about a call, as far as that does not depend on its
// parts.
func (r *Rule) applies(c *Call) bool {
	if len(r.Tools) > 0 && !anyGlob(r.Tools, c.Tool) || len(r.Categories) > 0 && !slices.Contains(r.Categories, c.Category) ||
		len(r.Agents) > 0 && !anyGlob(r.Agents, c.Agent) {
		return false
	}
	if len(r.Labels) > 0 && len(c.Labels) == 0 {
		return false
	}
	for key, g := range r.Labels {
		v, ok := c.Labels[key]
		if !ok || !g.match(v) {
			return false
		}
	}
	if r.Times != nil && !r.Times.holds(c.At) || !r.Until.IsZero() && !c.At.Before(r.Until) {
		return false
	}
	if !r.exact(c) {
		return false
	}
	// A rule about commands is about tools that run commands.
	return len(r.Commands) == 0 || c.script != nil
}

// matches answers whether a rule is about a part of a call.
func (r *Rule) matches(u *unit) answer {
	m := yes
	if len(r.Commands) > 0 {
		one := no
		for _, prefix := range r.Commands {
			if one = either(one, r.prefix(prefix, u.command)); one == yes {
				break
			}
		}
		m = both(m, one)
	}
	if m > no && len(r.Paths) > 0 {
		m = both(m, r.over(r.Paths, u.paths))
	}
	if m > no && len(r.Hosts) > 0 {
		m = both(m, r.over(r.Hosts, u.hosts))
	}
	for key, globs := range r.Args {
		if m == no {
			break
		}
		one := no
		for _, s := range argument(u.args, key) {
			if anyGlob(globs, s) {
				one = yes
			}
		}
		m = both(m, one)
	}
	if m == yes && r.Effect == Allow && u.command != nil && len(r.Commands) > 0 {
		m = both(m, r.covers(u))
	}
	return m
}

// covers says that an allowed command does no more than its words say: what it
// writes by redirection stays in the workspace, it gets no variables that change
// it, and it runs here.
func (r *Rule) covers(u *unit) answer {
	if len(u.command.Env) > 0 || u.command.Host != "" && len(r.Hosts) == 0 {
		return no
	}
	if len(r.Paths) > 0 {
		return yes
	}
	for _, w := range u.writes {
		if !w.Known || w.Text != "/dev/null" && !strings.HasPrefix(w.Text, shell.Workspace+"/") && !strings.HasPrefix(w.Text, "/tmp/") {
			return no
		}
	}
	return yes
}

// over: a rule that allows must fit all of them, any other one of them.
func (r *Rule) over(globs []Glob, words []shell.Word) answer {
	if len(words) == 0 {
		return no
	}
	out := no
	if r.Effect == Allow {
		out = yes
	}
	for _, w := range words {
		one := no
		for _, g := range globs {
			one = either(one, g.fits(w))
		}
		if r.Effect == Allow {
			out = both(out, one)
		} else {
			out = either(out, one)
		}
	}
	return out
}

// prefix compares the first words of a command. A rule that allows is taken
// literally. For others options may stand between the words, with what they take:
// git -C x push is a git push.
func (r *Rule) prefix(prefix []Glob, c *shell.Command) answer {
	if len(c.Args) == 0 {
		return no
	}
	var m answer
	if name := c.Args[0].Text; prefix[0].re == nil && c.Args[0].Known && !c.Args[0].Glob {
		if prefix[0].text != name && (strings.Contains(prefix[0].text, "/") || prefix[0].text != name[strings.LastIndexByte(name, '/')+1:]) {
			return no
		}
		m = yes
	} else {
		first := c.Args[0]
		if !strings.Contains(prefix[0].text, "/") && first.Known {
			first.Text = name[strings.LastIndexByte(name, '/')+1:]
		}
		if m = prefix[0].fits(first); m == no {
			return no
		}
	}
	rest := c.Args[1:]
	if r.Effect == Allow {
		if len(rest) < len(prefix)-1 {
			return no
		}
		for i, g := range prefix[1:] {
			m = both(m, g.fits(rest[i]))
		}
		return m
	}
	return both(m, loose(prefix[1:], rest))
}

func loose(prefix []Glob, words []shell.Word) answer {
	if len(prefix) == 0 {
		return yes
	}
	out := no
	for i := 0; i < len(words); i++ {
		if m := prefix[0].fits(words[i]); m > no {
			out = either(out, both(m, loose(prefix[1:], words[i+1:])))
			if out == yes {
				return out
			}
		}
		// Only options, and the words after them, are passed over.
		option := strings.HasPrefix(words[i].Text, "-") || !words[i].Known
		if !option && (i == 0 || !strings.HasPrefix(words[i-1].Text, "-")) {
			break
		}
	}
	return out
}

// argument answers the values of an argument, by its name or a path of names.
func argument(args map[string]any, key string) []string {
	var v any = args
	for part := range strings.SplitSeq(key, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[part]
	}
	switch v := v.(type) {
	case nil:
		return nil
	case string, []any:
		return stringsOf(v)
	case bool:
		if v {
			return []string{"true"}
		}
		return []string{"false"}
	case float64:
		return []string{strings.TrimSuffix(strings.TrimRight(formatFloat(v), "0"), ".")}
	}
	return nil
}
