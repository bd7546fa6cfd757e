// Package corpus measures how well policies classify commands, in both directions: how
// many of a set of evasions and sequences pass without an approval, and how many everyday
// commands require one.
//
// A Case is one call, or several consecutive calls of a task, with what they do or where
// they come from. Own returns the cases that come with Deckhand: their pass rate guards
// against regressions, and says less about commands that are in no case. Read reads other
// sets.
//
// Nothing is executed: cases are decided like the calls of a task.
package corpus

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Class is what sort of case it is.
type Class string

// The classes. An evasion and a sequence should be asked about or denied; an
// everyday command should not.
const (
	Evasion  Class = "evasion"
	Sequence Class = "sequence"
	Everyday Class = "everyday"
)

// Classes returns all classes, in the order in which they are reported.
func Classes() []Class { return []Class{Evasion, Sequence, Everyday} }

// Case is one entry of a corpus.
type Case struct {
	Class Class `yaml:"-"`
	// Does describes the real effect of an evasion or a sequence.
	Does string `yaml:"does"`
	// From is the public repository, and the file, that an everyday command is from.
	From string `yaml:"from"`
	// Policy is the policy that holds, as YAML; "" for the default policy.
	Policy string `yaml:"policy"`
	// Script is the one command of a case, Steps the calls of one with several: a
	// text is a script, a mapping a tool with its arguments.
	Script string      `yaml:"script"`
	Steps  []yaml.Node `yaml:"steps"`
}

// Name is the case in one line.
func (c Case) Name() string {
	if c.Does != "" {
		return c.Does
	}
	return c.From
}

//go:embed testdata/*.yaml
var own embed.FS

// Own returns the cases that come with Deckhand.
func Own() ([]Case, error) {
	var out []Case
	for _, class := range Classes() {
		name := "testdata/" + string(class) + ".yaml"
		data, err := own.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the corpus: %w", err)
		}
		cases, err := Read(name, data)
		if err != nil {
			return nil, err
		}
		out = append(out, cases...)
	}
	return out, nil
}

// Read reads a corpus: a mapping of classes to lists of cases.
func Read(name string, data []byte) ([]Case, error) {
	var file map[Class][]Case
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var out []Case
	for _, class := range Classes() {
		for i, c := range file[class] {
			if (c.Script == "") == (len(c.Steps) == 0) {
				return nil, fmt.Errorf("read %s: %s %d has script and steps, or neither: write one of them", name, class, i+1)
			}
			c.Class = class
			out = append(out, c)
		}
		delete(file, class)
	}
	for class := range file {
		return nil, fmt.Errorf("read %s: there is no class %q: write evasion, sequence or everyday", name, class)
	}
	return out, nil
}

// calls returns the calls of a case.
func (c Case) calls() ([]policy.Call, error) {
	command := func(text string) policy.Call {
		return policy.Call{Tool: toolname.ShellExec, Arguments: map[string]any{"command": text}}
	}
	if c.Script != "" {
		return []policy.Call{command(c.Script)}, nil
	}
	var out []policy.Call
	for i := range c.Steps {
		n := &c.Steps[i]
		if n.Kind == yaml.ScalarNode {
			out = append(out, command(n.Value))
			continue
		}
		call := policy.Call{}
		if err := n.Decode(&call.Arguments); err != nil {
			return nil, fmt.Errorf("step %d of %q: %w", i+1, c.Name(), err)
		}
		call.Tool, _ = call.Arguments["tool"].(string)
		delete(call.Arguments, "tool")
		out = append(out, call)
	}
	return out, nil
}

// Outcome is what became of a case.
type Outcome struct {
	Case
	// Stopped reports that one of the case's calls requires an approval or is denied;
	// Decision is the decision on that call, or on the last one.
	Stopped  bool
	Decision policy.Decision
}

// Wrong reports whether it is not as it should be.
func (o Outcome) Wrong() bool { return o.Stopped == (o.Class == Everyday) }

// guarded is a policy as people write it, with rules about files, hosts and
// commands. Everyday commands are decided by it as well: what it denies is meant,
// what it asks about is what could not be understood.
const guarded = `
rules:
  - {name: files, effect: deny, path: [/etc/**, /root/**, "**/.env", /workspace/.github/**]}
  - {name: hosts, effect: deny, host: [evil.test, "*.evil.test"]}
  - {name: commands, effect: deny, command: [git push --force, shutdown]}
`

// Run decides the cases.
func Run(cases []Case) ([]Outcome, error) {
	parsed := map[string]policy.Set{}
	setOf := func(text string) (policy.Set, error) {
		if set, ok := parsed[text]; ok {
			return set, nil
		}
		set := policy.Default()
		if text != "" {
			p, err := policy.Parse("policy", []byte(text))
			if err != nil {
				return nil, err
			}
			set = policy.Set{{Name: "corpus", Policy: p}}
		}
		parsed[text] = set
		return set, nil
	}
	out := make([]Outcome, 0, len(cases))
	for _, c := range cases {
		o, err := decide(c, c.Policy, setOf)
		if err == nil && c.Class == Everyday && c.Policy == "" && !o.Stopped {
			var strict Outcome
			if strict, err = decide(c, guarded, setOf); strict.Decision.Effect == policy.Ask {
				o = strict
			}
		}
		if err != nil {
			return nil, fmt.Errorf("decide %q: %w", c.Name(), err)
		}
		out = append(out, o)
	}
	return out, nil
}

func decide(c Case, text string, setOf func(string) (policy.Set, error)) (Outcome, error) {
	o := Outcome{Case: c}
	set, err := setOf(text)
	if err != nil {
		return o, err
	}
	calls, err := c.calls()
	if err != nil {
		return o, err
	}
	var written shell.Record
	for i := range calls {
		call := calls[i]
		call.Agent, call.Category, call.Mode, call.Written, call.At = "agent", "moderate", "autonomous", written, time.Unix(1_700_000_000, 0)
		o.Decision = set.Decide(call)
		if o.Decision.Effect == policy.Ask || o.Decision.Effect == policy.Deny {
			o.Stopped = true
			return o, nil
		}
		written = call.After()
	}
	return o, nil
}

// Score is how many cases of a class are not as they should be.
type Score struct {
	Class Class `json:"class"`
	Cases int   `json:"cases"`
	Wrong int   `json:"wrong"`
	// Percent of the cases that are wrong.
	Percent float64 `json:"percent"`
}

// Scores counts outcomes by class, in the order of Classes.
func Scores(outcomes []Outcome) []Score {
	out := make([]Score, 0, len(Classes()))
	for _, class := range Classes() {
		s := Score{Class: class}
		for _, o := range outcomes {
			if o.Class != class {
				continue
			}
			s.Cases++
			if o.Wrong() {
				s.Wrong++
			}
		}
		if s.Cases > 0 {
			s.Percent = 100 * float64(s.Wrong) / float64(s.Cases)
		}
		out = append(out, s)
	}
	return out
}
