// Package loopguard detects agents that repeat themselves without making
// progress.
//
// A Guard sees only the calls that an agent makes and their results, so the
// model cannot talk it out of its verdict: what counts is whether calls and
// results are new and whether the workspace changes, not what the model writes.
// The first finding is a nudge, which is sent to the model. If the next
// Patience iterations bring nothing new, the verdict is a stop.
package loopguard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/toolname"
)

const (
	// Window is how many of the last calls are looked at, and leastCalls how many
	// there must be.
	Window     = 20
	leastCalls = 10
	// leastDistinct is the share of calls, and leastAnswers the share of results,
	// that must differ from one another.
	leastDistinct = 0.30
	leastAnswers  = 0.15
	// rounds is how often a circle of calls must be closed: A-B-A-B six times.
	rounds = 6
	// longest is the longest circle, in calls, that is looked for.
	longest = 4
	// sameErrors is how often one error may come in a row.
	sameErrors = 3
	// Patience is how many iterations an agent has after a nudge.
	Patience = 3
)

// Kind is what a finding is about.
type Kind string

// The kinds.
const (
	// Repetition: most of the last calls are the same few, with the same results.
	Repetition Kind = "repetition"
	// Cycle: a short row of calls comes again and again.
	Cycle Kind = "cycle"
	// RepeatedError: one error came several times in a row.
	RepeatedError Kind = "repeated_error"
)

// Call is one call of a tool and what came of it.
type Call struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
	Result    string `json:"result"`
	// Failed says that the call did not succeed.
	Failed bool `json:"failed,omitempty"`
	// Changed says that it changed files of the workspace.
	Changed bool `json:"changed,omitempty"`
}

// Verdict is what is to be done after an iteration.
type Verdict int

// The verdicts.
const (
	GoOn Verdict = iota
	Nudge
	Stop
)

// Finding says what was seen; Text is for people and the model alike.
type Finding struct {
	Verdict Verdict
	Kind    Kind
	Text    string
}

// Guard watches one task. Its zero value is ready; as JSON it goes into the
// task's checkpoint.
type Guard struct {
	// Last are the last calls.
	Last []mark `json:"last,omitempty"`
	// Nudged says what was found first; empty for nothing. Left is how many
	// iterations remain until the stop.
	Nudged Kind `json:"nudged,omitempty"`
	Left   int  `json:"left,omitempty"`
	// Paused is how many seconds the agent waited last before it looked again, and Polls
	// reports that the calls which follow are such a look.
	Paused int  `json:"paused,omitempty"`
	Polls  bool `json:"polls,omitempty"`
}

// mark is a call as the guard remembers it: digests of the call, of its result,
// and of its error.
type mark struct {
	Call    string `json:"c"`
	Result  string `json:"r"`
	Error   string `json:"e,omitempty"`
	Tool    string `json:"t"`
	Changed bool   `json:"w,omitempty"`
	// Quiet says that the result is nothing but its status.
	Quiet bool `json:"q,omitempty"`
}

// waiting are tools that are there to be called again and again, and polling those that
// look what a job does: they fail only if there is no such job.
var (
	waiting = map[string]bool{toolname.UpdatePlan: true, toolname.ManageScratchpad: true, toolname.PinFact: true, toolname.Checkpoint: true}
	polling = map[string]bool{toolname.JobOutput: true, toolname.JobList: true, toolname.TerminalRead: true, toolname.Wait: true}
)

// longPause is how many seconds are a wait worth a look, however long the wait before was.
const longPause = 60

// sleeping is a command that waits before it does anything else.
var sleeping = regexp.MustCompile(`^\s*sleep\s+(\d{1,6})\b`)

// pause returns how many seconds a call waits before anything else; 0 if it does not.
func pause(c Call) int {
	var asked struct {
		Seconds int    `json:"seconds"`
		Command string `json:"command"`
	}
	if json.Unmarshal([]byte(c.Arguments), &asked) != nil {
		return 0
	}
	switch c.Tool {
	case toolname.Wait:
		return asked.Seconds
	case toolname.ShellExec:
		if m := sleeping.FindStringSubmatch(asked.Command); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			return n
		}
	}
	return 0
}

// polls reports whether a call belongs to polling: it looks at a job or waits, or it reads
// something again after a wait that was longer than the one before.
func (g *Guard) polls(c Call) bool {
	if seconds := pause(c); seconds > 0 {
		g.Polls = seconds > g.Paused || seconds >= longPause
		g.Paused = seconds
	} else if c.Changed || c.Failed {
		g.Polls = false
	}
	return !c.Failed && !c.Changed && (polling[c.Tool] || g.Polls)
}

// Observe takes the calls of an iteration and returns what is to be done.
func (g *Guard) Observe(calls []Call) Finding {
	fresh, polled := false, 0
	for _, c := range calls {
		if g.polls(c) {
			polled++
			continue
		}
		if waiting[c.Tool] {
			continue // they are neither work nor a lack of it
		}
		m := markOf(c)
		fresh = fresh || !g.seen(m)
		g.Last = append(g.Last, m)
	}
	g.Last = g.Last[max(0, len(g.Last)-Window):]
	if polled > 0 && polled == len(calls) {
		return Finding{}
	}
	if g.Nudged != "" {
		if fresh {
			// Something new: what came before no longer counts against it.
			*g = Guard{Last: g.Last[max(0, len(g.Last)-len(calls)):], Paused: g.Paused, Polls: g.Polls}
			return Finding{}
		}
		if g.Left--; g.Left > 0 {
			return Finding{}
		}
		kind := g.Nudged
		*g = Guard{} // a person who lets it go on gives it a new chance
		return Finding{Stop, kind, fmt.Sprintf("nothing new came of the last %d iterations, after it was told: %s", Patience, explain[kind])}
	}
	kind, text := g.look()
	if kind == "" {
		return Finding{}
	}
	g.Nudged, g.Left = kind, Patience
	return Finding{Nudge, kind, text}
}

var explain = map[Kind]string{
	Repetition:    "most of its calls repeat earlier ones with the same results",
	Cycle:         "it goes through the same few calls again and again",
	RepeatedError: "the same error came several times in a row",
}

// seen reports whether the same call had the same result before.
func (g *Guard) seen(m mark) bool {
	for _, old := range g.Last {
		if old.Result == m.Result && (old.Call == m.Call || m.Quiet && old.Tool == m.Tool) || m.Error != "" && old.Error == m.Error && old.Tool == m.Tool {
			return true
		}
	}
	return false
}

func (g *Guard) look() (Kind, string) {
	if n := g.errors(); n >= sameErrors {
		return RepeatedError, fmt.Sprintf("the same error came %d times in a row", n)
	}
	if length := g.circle(); length > 0 {
		return Cycle, fmt.Sprintf("the same %d calls came again and again with the same results", length)
	}
	if len(g.Last) < leastCalls {
		return "", ""
	}
	calls, answers := map[string]bool{}, map[string]bool{}
	for _, m := range g.Last {
		if m.Changed {
			return "", ""
		}
		calls[m.Call+m.Result], answers[m.Tool+m.Result] = true, true
	}
	n := float64(len(g.Last))
	if float64(len(calls)) < leastDistinct*n || float64(len(answers)) < leastAnswers*n {
		return Repetition, fmt.Sprintf("of the last %d calls only %d differ, with %d different results, and no file changed", len(g.Last), len(calls), len(answers))
	}
	return "", ""
}

// errors returns how often the last error came in a row, calls that changed
// nothing and succeeded not counted.
func (g *Guard) errors() int {
	n, what := 0, mark{}
	for i := len(g.Last) - 1; i >= 0; i-- {
		m := g.Last[i]
		switch {
		case m.Changed:
			return n
		case n == 0 && m.Error == "":
			return 0
		case n == 0:
			n, what = 1, m
		case m.Error == what.Error && m.Tool == what.Tool:
			n++
		case m.Tool == what.Tool:
			return n
		}
	}
	return n
}

// circle returns the length of the row of calls that was gone through rounds
// times, or 0. A row of one call counts as repetition sooner.
func (g *Guard) circle() int {
	for length := 1; length <= longest; length++ {
		need := length * rounds
		if len(g.Last) < min(need, Window) {
			continue
		}
		tail := g.Last[len(g.Last)-min(need, Window):]
		same := length == 1 || tail[0].Call != tail[1].Call
		for i, m := range tail {
			// The same call that changes something each time works its way through
			// something; a circle of edits that undo one another does not.
			if other := tail[i%length]; m.Changed && length == 1 || m.Call != other.Call || m.Result != other.Result {
				same = false
				break
			}
		}
		if same {
			return length
		}
	}
	return 0
}

func markOf(c Call) mark {
	result := c.Result
	m := mark{Call: digest(c.Tool, arguments(c.Arguments)), Tool: c.Tool, Changed: c.Changed, Quiet: quiet(result) && !c.Changed}
	m.Result = digest(normalise(result))
	if c.Failed || failing.MatchString(firstLine(result)) {
		m.Error = digest(paths.ReplaceAllString(normalise(result), "P"))
		if m.Quiet {
			// A search without results reports nothing else, so another search
			// is not the same error.
			m.Error = digest(m.Error, m.Call)
		}
	}
	return m
}

// quiet reports whether a result has nothing behind its first line.
func quiet(result string) bool {
	_, rest, _ := strings.Cut(strings.TrimSpace(result), "\n")
	rest = strings.TrimSpace(rest)
	return strings.HasPrefix(result, "exit status") && (rest == "" || rest == "(no output)")
}

var (
	// failing is how a command's result begins that did not exit with 0.
	failing = regexp.MustCompile(`^(exit status [1-9]|ended by signal|error )`)
	// volatile is what differs from run to run of the same thing: times, dates,
	// durations, process ids and addresses in memory.
	volatile = regexp.MustCompile(`(?i)\d{4}-\d\d-\d\d[t ]\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d(\.\d+)?\b|` +
		`\b\d+(\.\d+)?(ns|µs|us|ms|s|sec|seconds|m)\b|\[\d+\]|\bpid[ =:]*\d+|0x[0-9a-f]{4,}|/tmp/[\w./-]+|step="[^"]*"`)
	paths  = regexp.MustCompile(`(?:[\w.-]*/)+[\w.-]+`)
	spaces = regexp.MustCompile(`\s+`)
	quotes = strings.NewReplacer(`"`, "", `'`, "", "`", "")
)

func normalise(text string) string {
	return strings.ToLower(spaces.ReplaceAllString(volatile.ReplaceAllString(text, "V"), " "))
}

// arguments returns them with their keys in order and without what only words
// them otherwise: case, spaces, quotes, and options that bound output.
func arguments(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		if m, ok := v.(map[string]any); ok {
			delete(m, "timeout_seconds")
			if command, ok := m["command"].(string); ok {
				m["command"] = plain(command)
			}
		}
		if data, err := json.Marshal(v); err == nil {
			text = string(data)
		}
	}
	return strings.ToLower(spaces.ReplaceAllString(text, " "))
}

var (
	comment = regexp.MustCompile(`(^|\s)#.*`)
	trimmer = regexp.MustCompile(`\s*(\|\s*(head|tail|cat|less)(\s+-\S+|\s+\d+)*\s*|2>&1|2>/dev/null|\|\|\s*true|;\s*echo\s+\S+|&&\s*echo\s+\S+)`)
)

func plain(command string) string {
	command = comment.ReplaceAllString(command, "")
	command = trimmer.ReplaceAllString(command, "")
	return strings.TrimSpace(quotes.Replace(command))
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
