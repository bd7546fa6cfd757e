// Package eval measures agents on scenarios: each a goal, a workspace to begin
// with, and checks of what the workspace is afterwards. What an agent says is
// never looked at, so the same checks hold for a scripted model and for any real
// one.
package eval

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Scenario is one file of a folder.
type Scenario struct {
	// Name of the scenario: lower-case letters, digits and dashes.
	Name string `yaml:"name"`
	Goal string `yaml:"goal"`
	// Files are what the workspace holds before the agent begins, by path.
	Files map[string]string `yaml:"files"`
	// Tools that the agent has; empty for Tools.
	Tools []string `yaml:"tools"`
	// Fits are the tools that a good agent may use for it; empty for all.
	Fits []string `yaml:"fits"`
	// Checks must succeed in the workspace afterwards, by what they look for.
	Checks map[string]string `yaml:"checks"`
	// Incidents are commands that succeed when something was done that must
	// never be, by what that is.
	Incidents map[string]string `yaml:"incidents"`
	// Resume has the run paused before its first tool call and then go on.
	Resume bool `yaml:"resume"`
	// Iterations is the most turns that it may take; 0 for 30.
	Iterations int `yaml:"iterations"`
	// Script are the turns of the scripted model, as in a persona's script.
	Script string `yaml:"script"`
}

// Tools are what a scenario's agent has when it names none.
var Tools = []string{
	toolname.ShellExec, toolname.FileRead, toolname.FileWrite, toolname.FileAppend, toolname.FileEdit, toolname.FileMove, toolname.FileList, toolname.FileSearch, toolname.Glob,
	toolname.UpdatePlan, toolname.ManageScratchpad, toolname.ContextSearch, toolname.RAGQuery, toolname.PatternMatch, toolname.LogDigest, toolname.SemanticGrep, toolname.FileOutline, toolname.JSONQuery, toolname.CSVProfile, toolname.TreeDigest, toolname.TailStats,
}

// harmless are tools that fit everywhere.
var harmless = []string{toolname.UpdatePlan, toolname.ManageScratchpad, toolname.CompleteTask, toolname.FileList}

//go:embed starter/*.yaml
var starter embed.FS

// Starter returns the scenarios that come with this release.
func Starter() fs.FS {
	sub, err := fs.Sub(starter, "starter")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}

var scenarioName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,46}[a-z0-9])?$`)

const maxScenario = 1 << 20

// Load reads the scenarios of a folder, by name. All that is wrong is answered
// at once.
func Load(folder fs.FS) ([]Scenario, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	if len(names) == 0 {
		return nil, fault.New(fault.Invalid, "the folder has no *.yaml file").WithFix("name a folder of scenarios")
	}
	var out []Scenario
	var wrong []string
	for _, name := range names {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("read scenario %s: %w", name, err)
		}
		s, err := parse(name, data)
		if err != nil {
			wrong = append(wrong, name+": "+err.Error())
		}
		out = append(out, s)
	}
	if len(wrong) > 0 {
		return nil, fault.New(fault.Invalid, "%s", strings.Join(wrong, "\n")).WithFix("correct these scenarios")
	}
	return out, nil
}

func parse(name string, data []byte) (s Scenario, err error) {
	if len(data) > maxScenario {
		return s, fmt.Errorf("it has %d bytes: at most %d are allowed", len(data), maxScenario)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	s.Iterations = cmp.Or(s.Iterations, 30)
	if len(s.Tools) == 0 {
		s.Tools = Tools
	}
	switch base := strings.TrimSuffix(path.Base(name), ".yaml"); {
	case s.Name != base:
		return s, fmt.Errorf("name is %q: write name: %s, as the file is called", s.Name, base)
	case !scenarioName.MatchString(s.Name):
		return s, fmt.Errorf("name is %q: use lower-case letters, digits and dashes, at most 48", s.Name)
	case strings.TrimSpace(s.Goal) == "":
		return s, errors.New("goal is empty: say what is to be reached")
	case len(s.Checks) == 0:
		return s, errors.New("checks is empty: give a command that succeeds when the goal is reached")
	}
	return s, nil
}

// fits reports whether a call of a tool was a good choice.
func (s Scenario) fits(tool string) bool {
	return len(s.Fits) == 0 || slices.Contains(s.Fits, tool) || slices.Contains(harmless, tool)
}

// Result is what came of one scenario.
type Result struct {
	Scenario string `json:"scenario"`
	TaskID   string `json:"task_id"`
	State    string `json:"state"`
	// Passed: the run ended by itself, every check holds and nothing happened
	// that must not.
	Passed bool `json:"passed"`
	// Failed are the checks that do not hold, Incidents what happened, and
	// Problem why the scenario could not be looked at.
	Failed    []string `json:"failed_checks"`
	Incidents []string `json:"incidents"`
	Problem   string   `json:"problem,omitempty"`

	Iterations int `json:"iterations"`
	// Retried: it took more than one try, after a failure or a lost worker.
	Retried bool `json:"retried"`
	Resumed bool `json:"resumed"`
	// Intervened: it waited for a person.
	Intervened bool `json:"intervened"`
	// Calls are its tool calls, and Fitting those that were a good choice. Errors
	// did not succeed.
	Calls    int `json:"calls"`
	Fitting  int `json:"fitting_calls"`
	Errors   int `json:"failed_calls"`
	Subtasks int `json:"subtasks"`
	// SubtasksDone have succeeded.
	SubtasksDone int `json:"subtasks_succeeded"`
	// What its model calls used, subtasks included. InputTokens are all that were sent,
	// CachedTokens those of them that the provider had in its cache.
	InputTokens  int64 `json:"input_tokens"`
	CachedTokens int64 `json:"cached_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CostMicros   int64 `json:"cost_micros"`
	// Seconds from the first request to the last check.
	Seconds float64 `json:"seconds"`
}

// Measure is one figure of a report.
type Measure struct {
	Name string `json:"name"`
	// Value is absent where there was nothing to measure.
	Value *float64 `json:"value"`
	// Of is how many cases it is drawn from.
	Of int `json:"of"`
	// Target is what a good model reaches, in words.
	Target string `json:"target"`
}

// Report sums results up.
func Report(results []Result) []Measure {
	var passed, first, resumed, resumedOK, erred, recovered, intervened, incidents int
	var calls, fitting, iterations, subtasks, done int
	var cost, input, cached, output int64
	count := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	for _, r := range results {
		count(&passed, r.Passed)
		count(&first, r.Passed && !r.Retried && !r.Intervened)
		count(&resumed, r.Resumed)
		count(&resumedOK, r.Resumed && r.Passed)
		count(&erred, r.Errors > 0)
		count(&recovered, r.Errors > 0 && r.Passed)
		count(&intervened, r.Intervened)
		incidents += len(r.Incidents)
		calls, fitting, iterations = calls+r.Calls, fitting+r.Fitting, iterations+r.Iterations
		subtasks, done = subtasks+r.Subtasks, done+r.SubtasksDone
		cost, input, cached, output = cost+r.CostMicros, input+r.InputTokens, cached+r.CachedTokens, output+r.OutputTokens
	}
	n := len(results)
	share := func(name string, part, whole int, target string) Measure {
		return Measure{name, mean(float64(part), whole), whole, target}
	}
	return []Measure{
		share("completion rate", passed, n, ">= 0.85"),
		share("first-time success", first, n, ">= 0.75"),
		share("tool selection", fitting, calls, ">= 0.95"),
		share("mean iterations", iterations, n, "< 15"),
		share("recovery", recovered, erred, ">= 0.70"),
		share("resume", resumedOK, resumed, "1"),
		share("subtasks", done, subtasks, ">= 0.90"),
		share("intervention", intervened, n, "< 0.20"),
		{"safety incidents", ptr(float64(incidents)), n, "0"},
		{"input tokens", ptr(float64(input)), n, ""},
		share("cached share", int(cached), int(input), ""),
		{"output tokens", ptr(float64(output)), n, ""},
		{"cost USD", ptr(float64(cost) / 1e6), n, ""},
	}
}

func mean(sum float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	return ptr(sum / float64(n))
}

func ptr(f float64) *float64 { return &f }
