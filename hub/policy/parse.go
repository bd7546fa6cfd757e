package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

const (
	// maxFile is the largest size of a policy in bytes, and maxRules the most rules in
	// one.
	maxFile  = 1 << 20
	maxRules = 5000
	// maxProblems bounds a report.
	maxProblems = 50
	// mostPer is the longest time over which a limit counts.
	mostPer = 31 * 24 * time.Hour
)

// Parse reads and checks a policy, including its examples. The error is a *fault.Error of
// kind Invalid that lists every problem with its line. name is used in messages only.
func Parse(name string, data []byte) (*Policy, error) {
	if name == "" {
		name = "policy.yaml"
	}
	return (&decoder{file: name}).parse(data)
}

// load reads a version that is stored. It was checked when it was applied: what an
// older release took, and this one refuses, must not leave an organisation without
// its policy.
func load(name string, data []byte) (*Policy, error) {
	return (&decoder{file: name, stored: true}).parse(data)
}

func (d *decoder) parse(data []byte) (*Policy, error) {
	p := &Policy{Dangers: map[danger.Kind]Effect{}, Categories: map[string]string{}}
	if len(data) > maxFile {
		d.add(1, "the file has %d bytes: at most %d are allowed", len(data), maxFile)
		return nil, d.err()
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return p, nil
	case err != nil:
		d.add(lineOf(err), "it is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil, d.err()
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.add(1, "write one YAML document only")
	}
	if bad := alias(&doc); bad != nil {
		d.add(bad.Line, "anchors and aliases are not read: write it out")
		return nil, d.err()
	}
	d.policy(doc.Content[0], p)
	if len(d.problems) > 0 {
		return nil, d.err()
	}
	return p, nil
}

func alias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, c := range n.Content {
		if bad := alias(c); bad != nil {
			return bad
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

func lineOf(err error) int {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return max(n, 1)
	}
	return 1
}

type decoder struct {
	file string
	// stored reports that the version was applied before: it is read with the rules of
	// its time, and not checked again.
	stored   bool
	problems []string
}

func (d *decoder) add(line int, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, fmt.Sprintf("%s:%d: %s", d.file, line, fmt.Sprintf(format, args...)))
	}
}

func (d *decoder) err() error {
	return fault.New(fault.Invalid, "%s", strings.Join(d.problems, "\n")).WithFix("nothing was changed")
}

// each calls the function of each key of a mapping, and refuses other keys.
func (d *decoder) each(n *yaml.Node, what string, keys map[string]func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.add(n.Line, "%s must be a mapping of keys to values", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		fn := keys[key.Value]
		switch {
		case fn == nil:
			known := make([]string, 0, len(keys))
			for k := range keys {
				known = append(known, k)
			}
			slices.Sort(known)
			d.add(key.Line, "there is no key %q in %s: write one of %s", key.Value, what, strings.Join(known, ", "))
		case seen[key.Value]:
			d.add(key.Line, "the key %q comes twice", key.Value)
		default:
			fn(key, value)
		}
		seen[key.Value] = true
	}
}

func (d *decoder) effect(n *yaml.Node, none string) Effect {
	switch e := Effect(n.Value); {
	case n.Value == none && none != "":
		return None
	case e == Allow || e == Ask || e == Deny:
		return e
	}
	words := "allow, ask or deny"
	if none != "" {
		words = none + ", " + words
	}
	d.add(n.Line, "%q is no effect: write %s", n.Value, words)
	return None
}

// list returns the strings of a scalar or a sequence.
func (d *decoder) list(n *yaml.Node, what string) (out []*yaml.Node) {
	switch n.Kind {
	case yaml.ScalarNode:
		out = []*yaml.Node{n}
	case yaml.SequenceNode:
		out = n.Content
	}
	if len(out) == 0 {
		d.add(n.Line, "%s must be a text or a list of texts", what)
	}
	for _, e := range out {
		if e.Kind != yaml.ScalarNode || e.Value == "" {
			d.add(e.Line, "%s must be a text or a list of texts, none of them empty", what)
			return nil
		}
	}
	return out
}

func (d *decoder) globs(n *yaml.Node, what string, whole bool) (out []Glob) {
	for _, e := range d.list(n, what) {
		out = append(out, d.glob(e, e.Value, whole))
	}
	return out
}

func (d *decoder) glob(n *yaml.Node, pattern string, whole bool) Glob {
	if !strings.ContainsAny(pattern, "*?") {
		return Glob{text: pattern}
	}
	g, err := newGlob(pattern, whole)
	if err != nil {
		d.add(n.Line, "%q is no pattern: %v", pattern, err)
	}
	return g
}

// paths reads patterns of files, and refuses those that no file fits.
func (d *decoder) paths(n *yaml.Node, what string) []Glob {
	for _, e := range d.list(n, what) {
		d.never(e, what, instead(e.Value))
	}
	return d.globs(n, what, false)
}

// never refuses a pattern that nothing fits, and names what to write instead.
func (d *decoder) never(n *yaml.Node, what, better string) {
	if better != "" && better != n.Value && !d.stored {
		d.add(n.Line, "%s %q never matches: write %q", what, n.Value, better)
	}
}

// instead returns the corrected form of a pattern of files, or the pattern itself if it
// is sound. Files are compared by their clean absolute path.
func instead(p string) string {
	first, rest, below := strings.Cut(p, "/")
	switch {
	case first == "~" || first == "$HOME" || first == "${HOME}":
		return strings.TrimSuffix(shell.Workspace+"/"+instead("/" + rest)[1:], "/")
	case strings.HasPrefix(p, "$PWD/") || strings.HasPrefix(p, "./"):
		return shell.Workspace + instead("/"+rest)
	case p == "." || p == "./":
		return shell.Workspace + "/**"
	case !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "**"):
		if !below {
			return "**/" + p
		}
		return shell.Workspace + instead("/"+p)
	case len(p) > 1 && strings.HasSuffix(p, "/"):
		return instead(p + "**")
	}
	if clean := path.Clean(p); clean != p {
		return clean
	}
	return p
}

// hosts reads patterns of hosts, and refuses those that no host fits.
func (d *decoder) hosts(n *yaml.Node, what string) []Glob {
	for _, e := range d.list(n, what) {
		host := e.Value
		if _, rest, ok := strings.Cut(host, "://"); ok {
			host = rest
		}
		host, _, _ = strings.Cut(host, "/")
		if _, rest, ok := strings.Cut(host, "@"); ok {
			host = rest
		}
		if strings.Count(host, ":") == 1 {
			host, _, _ = strings.Cut(host, ":")
		}
		d.never(e, what, strings.ToLower(strings.TrimSuffix(host, ".")))
	}
	return d.globs(n, what, true)
}

// reachable refuses a rule about commands that is for tools that run none.
func (d *decoder) reachable(n *yaml.Node, r *Rule) {
	if len(r.Commands) == 0 || d.stored {
		return
	}
	for _, g := range r.Tools {
		if g.re != nil || g.text == toolname.ShellExec || slices.Contains(onMachine, g.text) {
			return
		}
	}
	d.add(n.Line, "rule %s never matches: its tools run no commands; write tool: shell_exec or host_exec, or leave tool or command out", r.Name)
}

var categories = []string{"safe", "moderate", "dangerous"}

func (d *decoder) category(n *yaml.Node) string {
	if !slices.Contains(categories, n.Value) {
		d.add(n.Line, "%q is no category: write safe, moderate or dangerous", n.Value)
	}
	return n.Value
}

func (d *decoder) policy(n *yaml.Node, p *Policy) {
	d.each(n, "a policy", map[string]func(key, value *yaml.Node){
		"default": func(_, v *yaml.Node) { p.Default = d.effect(v, "persona") },
		"dangerous": func(_, v *yaml.Node) {
			if v.Kind == yaml.ScalarNode {
				e := d.effect(v, "")
				for _, k := range danger.Kinds() {
					p.Dangers[k] = e
				}
				return
			}
			kinds := map[string]func(key, value *yaml.Node){}
			for _, k := range danger.Kinds() {
				kinds[string(k)] = func(_, v *yaml.Node) { p.Dangers[k] = d.effect(v, "") }
			}
			d.each(v, "dangerous", kinds)
		},
		"unclear": func(_, v *yaml.Node) { p.Unclear = d.effect(v, "") },
		"categories": func(_, v *yaml.Node) {
			if v.Kind != yaml.MappingNode {
				d.add(v.Line, "categories must be a mapping of tools to safe, moderate or dangerous")
				return
			}
			for i := 0; i+1 < len(v.Content); i += 2 {
				p.Categories[v.Content[i].Value] = d.category(v.Content[i+1])
			}
		},
		"limits": func(_, v *yaml.Node) {
			for _, e := range v.Content {
				p.Limits = append(p.Limits, d.limit(e))
			}
		},
		"rules": func(_, v *yaml.Node) {
			if v.Kind != yaml.SequenceNode {
				d.add(v.Line, "rules must be a list")
				return
			}
			if len(v.Content) > maxRules {
				d.add(v.Line, "there are %d rules: at most %d are allowed", len(v.Content), maxRules)
				return
			}
			names := map[string]bool{}
			for i, e := range v.Content {
				r := d.rule(e, i)
				if names[r.Name] {
					d.add(e.Line, "two rules are called %q", r.Name)
				}
				names[r.Name] = true
				p.Rules = append(p.Rules, r)
			}
		},
	})
}

func (d *decoder) limit(n *yaml.Node) (l Limit) {
	d.each(n, "a limit", map[string]func(key, value *yaml.Node){
		"tool":     func(_, v *yaml.Node) { l.Tool = v.Value },
		"category": func(_, v *yaml.Node) { l.Category = d.category(v) },
		"calls": func(_, v *yaml.Node) {
			var err error
			if l.Calls, err = strconv.Atoi(v.Value); err != nil || l.Calls < 0 {
				d.add(v.Line, "calls must be a number from 0")
			}
		},
		"per": func(_, v *yaml.Node) {
			var err error
			if l.Per, err = time.ParseDuration(v.Value); err != nil || l.Per < time.Second || l.Per > mostPer {
				d.add(v.Line, "per must be a time from 1s to 744h, such as 1h")
			}
		},
	})
	if (l.Tool == "") == (l.Category == "") {
		d.add(n.Line, "a limit is for a tool or for a category: write one of them")
	}
	if l.Per == 0 {
		d.add(n.Line, "per is missing: write over which time the calls are counted, such as per: 1h")
	}
	return l
}

func (d *decoder) rule(n *yaml.Node, i int) *Rule {
	r := &Rule{Name: fmt.Sprintf("rule-%d", i+1), Line: n.Line, Labels: map[string]Glob{}, Args: map[string][]Glob{}}
	var match, notMatch *yaml.Node
	d.each(n, "a rule", map[string]func(key, value *yaml.Node){
		"name": func(_, v *yaml.Node) { r.Name = v.Value },
		"effect": func(_, v *yaml.Node) {
			r.Effect = d.effect(v, "")
		},
		"approve": func(_, v *yaml.Node) {
			if r.Passkey = v.Value == "passkey"; !r.Passkey {
				d.add(v.Line, "approve must be passkey, or left out")
			}
		},
		"reason":   func(_, v *yaml.Node) { r.Reason = v.Value },
		"tool":     func(_, v *yaml.Node) { r.Tools = d.globs(v, "tool", true) },
		"agent":    func(_, v *yaml.Node) { r.Agents = d.globs(v, "agent", true) },
		"path":     func(_, v *yaml.Node) { r.Paths = d.paths(v, "path") },
		"read":     func(_, v *yaml.Node) { r.Reads = d.paths(v, "read") },
		"write":    func(_, v *yaml.Node) { r.Writes = d.paths(v, "write") },
		"host":     func(_, v *yaml.Node) { r.Hosts = d.hosts(v, "host") },
		"not_host": func(_, v *yaml.Node) { r.NotHosts = d.hosts(v, "not_host") },
		"category": func(_, v *yaml.Node) { r.Categories = d.categoryList(v) },
		"command":  func(_, v *yaml.Node) { r.Commands = d.commands(v) },
		"node":     func(_, v *yaml.Node) { d.labels(v, r) },
		"args":     func(_, v *yaml.Node) { d.args(v, r) },
		"time":     func(_, v *yaml.Node) { r.Times = d.times(v) },
		"mode": func(_, v *yaml.Node) {
			if r.Mode = v.Value; !slices.Contains(persona.Modes(), r.Mode) {
				d.add(v.Line, "%q is no mode: write one of %s", v.Value, strings.Join(persona.Modes(), ", "))
			}
		},
		"acts": func(_, v *yaml.Node) {
			if r.Acts = v.Value == "true"; !r.Acts {
				d.add(v.Line, "acts must be true, or left out")
			}
		},
		"undoable": func(_, v *yaml.Node) {
			var err error
			if r.Undoable, err = strconv.ParseBool(v.Value); err != nil {
				d.add(v.Line, "undoable must be true or false")
			}
		},
		"files": func(_, v *yaml.Node) {
			var err error
			if r.Files, err = strconv.Atoi(v.Value); err != nil || r.Files < 1 {
				d.add(v.Line, "files must be a number from 1: how many files a call may change")
			}
		},
		"match": func(_, v *yaml.Node) { match = v },
		"not_match": func(_, v *yaml.Node) {
			notMatch = v
		},
	})
	if r.Effect == None {
		d.add(n.Line, "rule %s has no effect: write allow, ask or deny", r.Name)
	}
	if r.Passkey && r.Effect != Ask && r.Effect != None {
		d.add(n.Line, "rule %s has approve: passkey, and nobody approves what it decides: write effect: ask, or leave approve out", r.Name)
	}
	if r.Effect == Allow && len(r.Tools)+len(r.Categories)+len(r.Commands)+len(r.Paths)+len(r.Reads)+len(r.Writes)+len(r.Hosts)+len(r.NotHosts)+len(r.Args) == 0 && !r.Acts {
		d.add(n.Line, "rule %s would allow every call: say of which tool, command, path, host, category or arguments", r.Name)
	}
	if r.Times != nil && r.Times.From == r.Times.To {
		d.add(n.Line, "rule %s holds at no time: from and to are the same; write other times, or leave time out", r.Name)
	}
	if (len(r.Hosts)+len(r.NotHosts) > 0 || len(r.Commands) > 0) && len(r.Tools) > 0 {
		d.reachable(n, r)
	}
	if len(d.problems) == 0 && !d.stored {
		d.examples(r, match, true)
		d.examples(r, notMatch, false)
	}
	return r
}

func (d *decoder) categoryList(n *yaml.Node) (out []string) {
	for _, e := range d.list(n, "category") {
		out = append(out, d.category(e))
	}
	return out
}

// commands reads prefixes of commands, split into words as a shell does.
func (d *decoder) commands(n *yaml.Node) (out [][]Glob) {
	for _, e := range d.list(n, "command") {
		var prefix []Glob
		var err error
		for w, werr := range syntax.NewParser().WordsSeq(strings.NewReader(e.Value)) {
			if err = werr; err != nil {
				break
			}
			var b strings.Builder
			for _, part := range w.Parts {
				switch part := part.(type) {
				case *syntax.Lit:
					b.WriteString(part.Value)
				case *syntax.SglQuoted:
					b.WriteString(part.Value)
				case *syntax.DblQuoted:
					for _, inner := range part.Parts {
						if lit, ok := inner.(*syntax.Lit); ok {
							b.WriteString(lit.Value)
						}
					}
				default:
					d.add(e.Line, "the command %q must be plain words: no variables and no substitutions", e.Value)
				}
			}
			prefix = append(prefix, d.glob(e, b.String(), true))
		}
		if err != nil || len(prefix) == 0 {
			d.add(e.Line, "the command %q cannot be read: write the first words of a command, such as git push", e.Value)
			continue
		}
		out = append(out, prefix)
	}
	return out
}

func (d *decoder) labels(n *yaml.Node, r *Rule) {
	if n.Kind != yaml.MappingNode {
		d.add(n.Line, "node must be a mapping of labels to values, such as {env: prod}")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		r.Labels[n.Content[i].Value] = d.glob(n.Content[i+1], n.Content[i+1].Value, true)
	}
}

func (d *decoder) args(n *yaml.Node, r *Rule) {
	if n.Kind != yaml.MappingNode {
		d.add(n.Line, "args must be a mapping of arguments to patterns, such as {branch: release/*}")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		r.Args[n.Content[i].Value] = d.globs(n.Content[i+1], "args."+n.Content[i].Value, true)
	}
}

var days = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (d *decoder) times(n *yaml.Node) *Times {
	t := &Times{Zone: time.UTC, To: 24 * 60, Days: [7]bool{true, true, true, true, true, true, true}}
	clock := func(v *yaml.Node) int {
		at, err := time.Parse("15:04", v.Value)
		if v.Value == "24:00" {
			return 24 * 60
		}
		if err != nil {
			d.add(v.Line, "%q is no time of day: write it as \"09:00\"", v.Value)
		}
		return at.Hour()*60 + at.Minute()
	}
	d.each(n, "time", map[string]func(key, value *yaml.Node){
		"from": func(_, v *yaml.Node) { t.From = clock(v) },
		"to":   func(_, v *yaml.Node) { t.To = clock(v) },
		"zone": func(_, v *yaml.Node) {
			zone, err := time.LoadLocation(v.Value)
			if err != nil {
				d.add(v.Line, "%q is no time zone: write it as Europe/Berlin", v.Value)
				return
			}
			t.Zone = zone
		},
		"days": func(_, v *yaml.Node) {
			t.Days = [7]bool{}
			for _, e := range d.list(v, "days") {
				first, last, ranged := strings.Cut(e.Value, "-")
				a, b := slices.Index(days, first), slices.Index(days, last)
				if !ranged {
					b = a
				}
				if a < 0 || b < 0 {
					d.add(e.Line, "%q are no days: write mon, or mon-fri", e.Value)
					return
				}
				for i := a; ; i = (i + 1) % 7 {
					t.Days[i] = true
					if i == b {
						break
					}
				}
			}
		},
	})
	return t
}

// examples checks what a rule must match, or must not: a text is a shell command,
// a mapping is a tool with its arguments.
func (d *decoder) examples(r *Rule, n *yaml.Node, want bool) {
	if n == nil {
		return
	}
	list := n.Content
	if n.Kind == yaml.ScalarNode {
		list = []*yaml.Node{n}
	}
	// The rule alone, whatever its agents, nodes and times.
	alone := *r
	alone.Agents, alone.Labels, alone.Times = nil, nil, nil
	for _, e := range list {
		c := Call{Tool: toolname.ShellExec, Arguments: map[string]any{}}
		shown := e.Value
		if e.Kind == yaml.MappingNode {
			if err := e.Decode(&c.Arguments); err != nil {
				d.add(e.Line, "an example must be a command, or a tool with its arguments")
				continue
			}
			c.Tool, _ = c.Arguments["tool"].(string)
			delete(c.Arguments, "tool")
			shown = fmt.Sprintf("%s %v", c.Tool, c.Arguments)
		} else {
			c.Arguments["command"] = e.Value
		}
		if len(r.Categories) > 0 {
			c.Category = r.Categories[0]
		}
		got := Set{{Name: "example", Policy: &Policy{Rules: []*Rule{&alone}, Dangers: allowed}}}.Decide(c)
		if matched := got.Effect == r.Effect && (got.Rule == r.Name || r.Effect == Allow); matched != want {
			if want {
				d.add(e.Line, "rule %s must match the example %q, and does not", r.Name, shown)
			} else {
				d.add(e.Line, "rule %s must not match the example %q, and does", r.Name, shown)
			}
		}
	}
}

// allowed lets every danger pass, for examples.
var allowed = func() map[danger.Kind]Effect {
	out := map[danger.Kind]Effect{}
	for _, k := range danger.Kinds() {
		out[k] = Allow
	}
	return out
}()
