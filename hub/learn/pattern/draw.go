package pattern

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/plantree"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// run is an ended run as patterns are drawn from it.
type run struct {
	task     db.Task
	plan     []plantree.Item
	criteria []string
	steps    []db.StepsToLearnRow
	// untrusted reports that it has read what anybody may have written.
	untrusted bool
}

func (r run) cancelled() bool { return task.State(r.task.State) == task.Cancelled }

// Drawn is what one run teaches.
type Drawn struct {
	Title, TaskType, Domain string
	Keywords                []string
	Approach                Approach
	Iterations              int32
}

// bookkeeping are tools that say nothing about how the work was done.
var bookkeeping = []string{
	toolname.UpdatePlan, toolname.ManageScratchpad, toolname.PinFact, toolname.CompleteTask, toolname.ToolSearch, toolname.ContextSearch, toolname.PatternMatch,
}

// draw returns what a succeeded run teaches, by rule; false if it teaches nothing: it has no
// words, or it called nothing. Secrets are masked. A text that tries to give instructions
// to its reader is left out, since what an agent writes may come from what it read.
func draw(r run, agentName string, mask *redact.Redactor) (d Drawn, ok bool) {
	goal := unmarked(mask.String(r.task.Title + "\n" + r.task.Goal))
	d = Drawn{TaskType: cmp.Or(r.task.TaskType, agentName), Keywords: Keywords(goal), Iterations: max(r.task.Iteration-r.task.ResumedAt, 0)}
	text := func(s string) string {
		if s = cut(mask.String(s), maxText); Instructs(s) {
			return ""
		}
		return s
	}
	var calls []string
	for _, s := range r.steps {
		calls = append(calls, s.Tool, gist(s))
		if s.State == "succeeded" && !slices.Contains(bookkeeping, s.Tool) {
			d.Approach.Tools = union(d.Approach.Tools, []string{s.Tool}, maxTools)
		}
	}
	if len(d.Keywords) == 0 || len(d.Approach.Tools) == 0 {
		return d, false
	}
	d.Domain = domainOf(goal, calls...)
	d.Title = cmp.Or(cut(mask.String(cmp.Or(r.task.Title, r.task.Goal)), maxTitle), d.TaskType)
	if Instructs(d.Title) {
		d.Title = d.TaskType
	}
	for _, item := range r.plan {
		if one := text(item.Title); one != "" && item.Parent == "" {
			d.Approach.Plan = union(d.Approach.Plan, []string{one}, maxPlan)
		}
	}
	if len(d.Approach.Plan) == 0 {
		d.Approach.Plan = planOfCalls(r.steps, text)
	}
	d.Approach.Pitfalls = pitfalls(r.steps, text)
	for _, sign := range r.criteria {
		if one := text(sign); one != "" {
			d.Approach.Signs = union(d.Approach.Signs, []string{one}, maxSigns)
		}
	}
	if last := lastCheck(r.steps); last != "" && len(d.Approach.Signs) < maxSigns {
		if one := text(last); one != "" {
			d.Approach.Signs = append(d.Approach.Signs, one+" succeeds")
		}
	}
	return d, true
}

// masks are what secrets are replaced with.
var masks = regexp.MustCompile("⟦[^⟧]*⟧")

// unmarked returns a masked text without the marks, for words to be taken from it.
func unmarked(text string) string { return masks.ReplaceAllString(text, " ") }

// gist returns the argument that says what a call was about.
func gist(s db.StepsToLearnRow) string {
	var arguments map[string]any
	if json.Unmarshal([]byte(s.Arguments), &arguments) != nil {
		return ""
	}
	for _, key := range []string{"command", "path", "url", "query", "pattern", "goal", "agent", "name"} {
		if value, ok := arguments[key].(string); ok && value != "" {
			return cut(value, maxText)
		}
	}
	return ""
}

// planOfCalls makes a plan of what a run without one called, one item for each kind of call.
func planOfCalls(steps []db.StepsToLearnRow, text func(string) string) (out []string) {
	for _, s := range steps {
		if s.State != "succeeded" || slices.Contains(bookkeeping, s.Tool) {
			continue
		}
		item := s.Tool
		if g := gist(s); g != "" {
			item += ": " + g
		}
		if item = text(item); item != "" {
			out = union(out, []string{item}, maxPlan)
		}
	}
	return out
}

// pitfalls returns the calls that failed and what then worked: the next call of the same tool
// that succeeded.
func pitfalls(steps []db.StepsToLearnRow, text func(string) string) (out []Pitfall) {
	for i, s := range steps {
		if s.State != "failed" && s.State != "denied" || len(out) == maxPitfalls {
			continue
		}
		p := Pitfall{Tool: s.Tool, Failed: text(joined(gist(s), why(s)))}
		for _, later := range steps[i+1:] {
			if later.State == "succeeded" && later.Tool == s.Tool && later.Arguments != s.Arguments {
				p.Worked = text(gist(later))
				break
			}
		}
		if p.Failed != "" && p.Worked != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// why returns why a call failed or was denied.
func why(s db.StepsToLearnRow) string {
	if s.State == "denied" {
		return cmp.Or(s.DecisionReason, s.Observation)
	}
	return firstLine(s.Observation)
}

func joined(call, said string) string {
	if call == "" || said == "" {
		return call + said
	}
	return cut(call, maxText/2) + ": " + said
}

func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// lastCheck returns the last command that succeeded and checks something.
func lastCheck(steps []db.StepsToLearnRow) string {
	for _, s := range slices.Backward(steps) {
		if s.Tool != toolname.ShellExec || s.State != "succeeded" {
			continue
		}
		command := gist(s)
		for _, word := range []string{"test", "check", "lint", "build", "vet", "verify", "diff", "validate"} {
			if strings.Contains(command, word) {
				return command
			}
		}
	}
	return ""
}

// merge returns a pattern's content with what one more run taught. The plan is that of the run
// with fewer iterations. A text that a person edited, and all text if the run has read what is
// untrusted, stays.
func merge(row db.Pattern, was Approach, d Drawn, untrusted bool) (a Approach, keywords []string, mean float64) {
	n := float64(max(row.SourceCount, 0))
	mean = (row.ExpectedIterations*n + float64(d.Iterations)) / (n + 1)
	if row.Edited || untrusted {
		return was, row.Keywords, mean
	}
	a = was
	if (len(was.Plan) == 0 || float64(d.Iterations) < row.ExpectedIterations) && len(d.Approach.Plan) > 0 {
		a.Plan = d.Approach.Plan
	}
	a.Tools = union(was.Tools, d.Approach.Tools, maxTools)
	a.Signs = union(was.Signs, d.Approach.Signs, maxSigns)
	a.Pitfalls = slices.Clone(was.Pitfalls)
	for _, p := range d.Approach.Pitfalls {
		same := func(o Pitfall) bool {
			return o.Tool == p.Tool && similarity(Keywords(o.Failed), Keywords(p.Failed)) > 0.8
		}
		if len(a.Pitfalls) < maxPitfalls && !slices.ContainsFunc(a.Pitfalls, same) {
			a.Pitfalls = append(a.Pitfalls, p)
		}
	}
	// Words that both have stay in front: of a type of task they are the common ones.
	var both []string
	for _, word := range row.Keywords {
		if slices.Contains(d.Keywords, word) {
			both = append(both, word)
		}
	}
	return a, union(union(both, row.Keywords, maxKeywords), d.Keywords, maxKeywords), mean
}

// mergeAt is the similarity of words from which two runs of a type of task teach one pattern.
const mergeAt = 0.6

// followed reports whether a run did what a pattern says: its plan has at least half of the
// pattern's items, or it called at least two thirds of its tools in the pattern's order.
func followed(r run, a Approach) bool {
	if len(a.Plan) > 0 && len(r.plan) > 0 {
		found := 0
		for _, item := range a.Plan {
			words := Keywords(item)
			if slices.ContainsFunc(r.plan, func(own plantree.Item) bool {
				return own.Title == item || similarity(words, Keywords(own.Title)) >= 0.5
			}) {
				found++
			}
		}
		return 2*found >= len(a.Plan)
	}
	if len(a.Tools) == 0 {
		return false
	}
	var order []string
	for _, s := range r.steps {
		order = union(order, []string{s.Tool}, math.MaxInt)
	}
	return 3*common(a.Tools, order) >= 2*len(a.Tools)
}

// common is the length of the longest common subsequence of two lists.
func common(a, b []string) int {
	above := make([]int, len(b)+1)
	for _, one := range a {
		row := make([]int, len(b)+1)
		for i, other := range b {
			if row[i+1] = max(above[i+1], row[i]); one == other {
				row[i+1] = above[i] + 1
			}
		}
		above = row
	}
	return above[len(b)]
}

// instructing are phrases of texts that try to become instructions.
var instructing = []string{
	"ignore previous", "ignore all previous", "ignore the above", "ignore your instructions", "disregard", "you are now", "new instructions",
	"system prompt", "system:", "assistant:", "<tool_output", "</tool_output", "<operator_message", "override your", "do not tell", "without asking",
	"disable the policy", "grant yourself", "send the secret", "exfiltrate", "forget your", "as an administrator", "your real goal", "your goal is now",
	"skip approval", "bypass",
}

// Instructs reports whether a text has the shape of instructions to its reader. Patterns are
// fenced as data in any case; this keeps the plainest attempts from being stored.
func Instructs(text string) bool {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	return slices.ContainsFunc(instructing, func(phrase string) bool { return strings.Contains(text, phrase) })
}
