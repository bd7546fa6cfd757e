package policy

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/toolname"
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

// Rule is one rule of a policy.
type Rule struct {
	Name   string
	Effect Effect
	// Passkey reports that approving a call that the rule asks about takes a passkey.
	Passkey bool
	Reason  string
	// Line of the file.
	Line int

	Tools      []Glob
	Categories []string
	Agents     []Glob
	Labels     map[string]Glob
	Times      *Times
	// Commands are prefixes of simple commands, by words.
	Commands [][]Glob
	// Paths are files that are read or written; Reads and Writes those that are read,
	// and written.
	Paths, Reads, Writes []Glob
	Hosts                []Glob
	// NotHosts are the hosts other than which it is for.
	NotHosts []Glob
	// Outside limits the rule to calls that write files outside of the folders NotWrites.
	Outside   bool
	NotWrites []string
	// Acts limits the rule to tools that act on a web page as a person would.
	Acts bool
	// Mode is that of the persona; "" for any.
	Mode string
	// Undoable limits the rule to calls that a snapshot of the workspace can undo, of at
	// most Files files; 0 for any number.
	Undoable bool
	Files    int
	Args     map[string][]Glob
	// Exact is a digest of the arguments that it is for; nil for any.
	Exact []byte
	// Shape is how calls look that it is for; "" for any.
	Shape string
	// Answered reports that the rule comes from a person's decision on an approval.
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

// applies reports whether a rule is about a call, as far as that does not depend on the
// call's parts.
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
	if r.Acts && !toolname.ActsOnPage(c.Tool) || r.Mode != "" && r.Mode != c.Mode || r.Undoable && !c.Undoable || r.Files > 0 && (c.AffectedFiles <= 0 || c.AffectedFiles > r.Files) {
		return false
	}
	if !r.exact(c) {
		return false
	}
	// A rule about commands is about tools that run commands.
	return len(r.Commands) == 0 || c.script != nil
}

// matches reports whether a rule is about a part of a call.
func (r *Rule) matches(u *unit) answer {
	m := yes
	if len(r.Commands) > 0 {
		one := no
		for _, prefix := range r.Commands {
			if one = either(one, r.prefix(prefix, u)); one == yes {
				break
			}
		}
		m = both(m, one)
	}
	if m > no && len(r.Paths) > 0 {
		m = both(m, r.overFiles(r.Paths, u.files, shell.Either))
	}
	if m > no && len(r.Reads) > 0 {
		m = both(m, r.overFiles(r.Reads, u.files, shell.Reads))
	}
	if m > no && len(r.Writes) > 0 {
		m = both(m, r.overFiles(r.Writes, u.files, shell.Writes))
	}
	if m > no && r.Outside {
		m = both(m, outside(r.NotWrites, u.files))
	}
	if m > no && len(r.Hosts)+len(r.NotHosts) > 0 {
		m = both(m, r.overHosts(u.hosts))
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

// covers reports whether an allowed command does no more than its words show: it
// redirects output only to the workspace, gets no variables that change it, and runs in
// the jail.
func (r *Rule) covers(u *unit) answer {
	if len(u.command.Env) > 0 || u.command.Given || u.command.Host != "" && len(r.Hosts)+len(r.NotHosts) == 0 {
		return no
	}
	if len(r.Paths)+len(r.Writes) == 0 && !u.tame {
		return no
	}
	return yes
}

// overFiles compares the files of a part: a rule that allows must match all of them, any
// other rule one of them. Whether a program reads or writes a file is not always known.
func (r *Rule) overFiles(globs []Glob, files []shell.Operand, access shell.Access) answer {
	found, out := false, no
	if r.Effect == Allow {
		out = yes
	}
	for _, f := range files {
		if r.Effect != Allow {
			if f.Word = settled(f.Word); f.Text == "" {
				continue
			}
		}
		one := no
		for _, g := range globs {
			if one = either(one, g.fitsFile(f)); one == yes {
				break
			}
		}
		if access != shell.Either && f.Access != access {
			switch {
			case f.Access != shell.Either:
				if r.Effect == Allow {
					found, out = true, no // it does the other as well
				}
				continue
			case r.Effect != Allow:
				one = both(one, maybe)
			}
		}
		if found = true; r.Effect == Allow {
			out = both(out, one)
		} else {
			out = either(out, one)
		}
	}
	if !found {
		return no
	}
	return out
}

// settled returns a word in which variables that the script does not set are empty. They
// come from the environment, which the agent does not control: a rule that denies is not
// about them.
func settled(w shell.Word) shell.Word {
	if !strings.Contains(w.Text, shell.Unset) {
		return w
	}
	w.Text = strings.ReplaceAll(w.Text, shell.Unset, "")
	if strings.HasPrefix(w.Text, "/") {
		w.Text = path.Clean(w.Text)
	}
	w.Known = !strings.Contains(w.Text, shell.Hole)
	return w
}

// overHosts compares the hosts of a part: a rule that allows must match all of them, any
// other rule one of them.
func (r *Rule) overHosts(hosts []shell.Word) answer {
	if len(hosts) == 0 {
		return no
	}
	out := no
	if r.Effect == Allow {
		out = yes
	}
	for _, h := range hosts {
		if r.Effect != Allow {
			if h = settled(h); h.Text == "" {
				continue
			}
		}
		one := yes
		if len(r.Hosts) > 0 {
			one = no
			for _, g := range r.Hosts {
				one = either(one, g.fits(h))
			}
		}
		for _, g := range r.NotHosts {
			one = both(one, yes-g.fits(h))
		}
		if r.Effect == Allow {
			out = both(out, one)
		} else {
			out = either(out, one)
		}
	}
	return out
}

// prefix compares the first words of a command. A rule that allows is taken literally.
// For other rules, options and their values may come between the words: git -C x push is
// a git push.
func (r *Rule) prefix(prefix []Glob, u *unit) answer {
	if len(u.command.Args) == 0 {
		return no
	}
	var m answer
	args := u.command.Args
	if r.Effect != Allow {
		args = u.settled
	}
	if name := args[0].Text; prefix[0].re == nil && args[0].Known && !args[0].Glob {
		if prefix[0].text != name && (strings.Contains(prefix[0].text, "/") || prefix[0].text != name[strings.LastIndexByte(name, '/')+1:] || r.Effect == Allow && !installed(name)) {
			return no
		}
		m = yes
	} else {
		first := args[0]
		if !strings.Contains(prefix[0].text, "/") && first.Known && (r.Effect != Allow || installed(name)) {
			first.Text = name[strings.LastIndexByte(name, '/')+1:]
		}
		if m = prefix[0].fits(first); m == no {
			return no
		}
	}
	rest := args[1:]
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

// words returns how many of the first words of a command a rule that allows names.
func (r *Rule) words(u *unit) (n int) {
	if r.Effect != Allow || u.command == nil {
		return 0
	}
	for _, prefix := range r.Commands {
		if len(prefix) > n && r.prefix(prefix, u) == yes {
			n = len(prefix)
		}
	}
	return n
}

// installed reports whether a program is called by its name alone, or is in a folder of
// the machine's own programs: ./git and /tmp/git may be anything.
func installed(name string) bool {
	i := strings.LastIndexByte(name, '/')
	return i < 0 || slices.Contains([]string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}, name[:i])
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
		// Only options, and the words after them, are skipped.
		option := strings.HasPrefix(words[i].Text, "-") || !words[i].Known
		if !option && (i == 0 || !strings.HasPrefix(words[i-1].Text, "-")) {
			break
		}
	}
	return out
}

// argument returns the values of an argument, by its name or a path of names.
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
		return []string{strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 6, 64), "0"), ".")}
	}
	return nil
}
