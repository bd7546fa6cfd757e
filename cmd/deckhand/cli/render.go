package cli

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// lineWidth bounds what is shown of one argument list or payload, in cells.
	lineWidth = 160
	// blockLines bounds what is shown of one observation; the step's log has
	// all of it.
	blockLines = 12
)

// detail is how much of what happens is shown.
type detail int

const (
	// phasesOnly shows where a task stands: states, phases, tools, trouble.
	phasesOnly detail = iota
	// everything shows reasoning, arguments and results too.
	everything
)

// renderer turns events into lines for people. Types and payloads are those of
// docs/events.md; one that it does not know is shown by its name and payload,
// so that nothing that happened is kept from the reader.
type renderer struct {
	detail detail
	// many says that several tasks are watched: each line names its task.
	many bool
	line func(string)
	// observation returns what a step gave back; events do not carry it.
	observation func(taskID, stepID string) string
}

// event shows one event.
func (r *renderer) event(e *deckhandv1.Event) {
	p := e.GetPayload()
	get := func(name string) string { return termsafe.Line(field(p, name)) }
	switch e.GetType() {
	case "task.submitted":
		r.show(e, "task", dim, "%s, for agent %s", termsafe.Line(e.GetTaskId()), get("agent"))
	case "state_changed":
		state := deckhandv1.TaskState(deckhandv1.TaskState_value["TASK_STATE_"+strings.ToUpper(get("to"))])
		r.show(e, "state", stateStyle(state), "%s", withReason(get("to"), get("reason")))
	case "execution_started", "execution_resumed":
		r.show(e, "begin", dim, "attempt %s, %s", get("attempt"), modelName(get("provider"), get("model")))
	case "phase_changed":
		r.show(e, "phase", phaseStyle, "%s", iterated(get("phase"), get("iteration")))
	case "tool_selected":
		r.show(e, "call", toolStyle, "%s %s", get("tool"), r.arguments(p))
	case "tool_completed":
		r.toolCompleted(e)
	case "tool_denied", "tool_rejected":
		r.show(e, "no", failStyle, "%s %s", get("tool"), withReason(get("reason")+get("message"), get("error_code")))
	case "approval_requested":
		r.asked(e, "approval")
	case "input_required":
		r.asked(e, "question")
	case "outcome_unknown":
		r.asked(e, "unknown")
	case "inbox_answered":
		r.show(e, "inbox", waitStyle, "%s answered %s: %s", get("by"), get("item_id"), withReason(get("answer"), get("reason")))
	case "inbox_expired":
		r.show(e, "inbox", failStyle, "nobody answered %s in time: %s", get("item_id"), get("on_expiry"))
	case "egress_refused":
		r.refused(e)
	case "limit_warning", "limit_reached":
		r.show(e, "limit", failStyle, "%s: %s of %s used", get("kind"), get("current"), get("limit"))
	case "model_failover":
		r.show(e, "model", failStyle, "%s goes on for %s", modelName(get("to_provider"), get("to_model")),
			withReason(modelName(get("from_provider"), get("from_model")), get("reason")))
	case "agent.suspended":
		r.show(e, "agent", failStyle, "%s is suspended: %s; when you have looked: %s", get("agent"), get("reason"), get("fix"))
	case "execution_failed", "execution_paused":
		r.show(e, "stop", failStyle, "%s", withReason(get("message"), get("error_code")))
	case "tool_executing", "execution_completed", "execution_cancelled", "agent.spawned":
		// What these say is said by calls and states.
	default:
		if r.detail == everything {
			r.detailed(e)
		}
	}
}

// detailed shows what is left out of a mere progress display.
func (r *renderer) detailed(e *deckhandv1.Event) {
	p := e.GetPayload()
	switch e.GetType() {
	case "thinking":
		r.block(e, "think", dim, field(p, "text"))
	case "plan_updated":
		for _, value := range p.GetFields()["items"].GetListValue().GetValues() {
			item := value.GetStructValue()
			r.show(e, "plan", dim, "%-11s %s", termsafe.Line(field(item, "status")), shorten(termsafe.Line(field(item, "title")), lineWidth))
		}
	case "iteration_complete":
		reflection := p.GetFields()["reflection"].GetStructValue()
		r.block(e, "saw", dim, field(reflection, "what_happened"))
		r.spent(e, p.GetFields()["usage"].GetStructValue())
	case "progress_update":
		next := shorten(termsafe.Line(field(p, "next_action")), lineWidth)
		r.show(e, "next", dim, "%.0f%% %s", 100*p.GetFields()["progress"].GetNumberValue(), next)
	case "checkpoint_created":
		// One belongs to every iteration.
	default:
		r.show(e, "event", dim, "%s %s", termsafe.Line(e.GetType()), shorten(arguments(p), lineWidth))
	}
}

// asked shows an item that waits for a person, and the command that answers it.
func (r *renderer) asked(e *deckhandv1.Event, kind string) {
	p := e.GetPayload()
	get := func(name string) string { return termsafe.Line(field(p, name)) }
	what := map[string]string{
		"approval": get("tool") + " waits for approval", "question": "the agent asks", "unknown": "nobody knows whether " + get("tool") + " took effect",
	}[kind]
	if until := get("expires_at"); until != "" {
		what += ", until " + until
	}
	r.show(e, "asks", waitStyle, "%s", what)
	r.block(e, "what", waitStyle, literal.Block(field(p, "preview")))
	r.show(e, "asks", waitStyle, "answer it: %s", answers(kind, field(p, "item_id")))
}

func (r *renderer) arguments(p *structpb.Struct) string {
	width := lineWidth
	if r.detail == phasesOnly {
		width /= 2
	}
	return shorten(arguments(p.GetFields()["arguments"].GetStructValue()), width)
}

func (r *renderer) toolCompleted(e *deckhandv1.Event) {
	p := e.GetPayload()
	get := func(name string) string { return termsafe.Line(field(p, name)) }
	style := toolStyle
	if get("state") != "succeeded" {
		style = failStyle
	}
	facts := []string{get("tool"), get("state")}
	if code := field(p.GetFields()["outcome"].GetStructValue(), "exit_code"); code != "" {
		facts = append(facts, "exit "+termsafe.Line(code))
	}
	if code := get("error_code"); code != "" {
		facts = append(facts, code)
	}
	if ms, ok := p.GetFields()["duration_ms"]; ok {
		facts = append(facts, "in "+output.Duration(time.Duration(ms.GetNumberValue())*time.Millisecond))
	}
	r.show(e, "done", style, "%s", strings.Join(facts, " "))
	if r.detail == everything && r.observation != nil {
		r.block(e, "saw", lipgloss.NewStyle(), r.observation(e.GetTaskId(), field(p, "step_id")))
	}
}

// refused shows what a command wanted to reach and may not, with what would allow
// it.
func (r *renderer) refused(e *deckhandv1.Event) {
	for _, value := range e.GetPayload().GetFields()["refused"].GetListValue().GetValues() {
		one := value.GetStructValue()
		text := field(one, "method") + ": " + field(one, "reason")
		if allow := field(one, "allow"); allow != "" {
			text += "; the persona would have to say " + allow
		}
		r.show(e, "net", failStyle, "%s", shorten(termsafe.Line(text), refusalWidth))
	}
}

// refusalWidth leaves room for the rule, which is there to be copied.
const refusalWidth = 400

// spent shows what an iteration's turn cost.
func (r *renderer) spent(e *deckhandv1.Event, usage *structpb.Struct) {
	number := func(name string) float64 { return usage.GetFields()[name].GetNumberValue() }
	total := number("input_tokens") + number("output_tokens") + number("cache_read_tokens") + number("cache_write_tokens")
	r.show(e, "cost", dim, "%.0f tokens, $%.4f", total, number("cost_micros")/1e6)
}

// show writes one line: time, task where there are several, label, text.
func (r *renderer) show(e *deckhandv1.Event, label string, style lipgloss.Style, format string, args ...any) {
	line := r.head(e) + style.Render(fmt.Sprintf("%-5s", label)) + " " + fmt.Sprintf(format, args...)
	r.line(strings.TrimRight(line, " "))
}

// block writes texts with their lines kept, each behind the label.
func (r *renderer) block(e *deckhandv1.Event, label string, style lipgloss.Style, texts ...string) {
	var lines []string
	for _, text := range texts {
		if text = strings.TrimSpace(termsafe.Text(text)); text != "" {
			lines = append(lines, strings.Split(text, "\n")...)
		}
	}
	if cut := len(lines) - blockLines; cut > 0 {
		lines = append(lines[:blockLines], fmt.Sprintf("… %d more lines", cut))
	}
	for _, line := range lines {
		r.show(e, label, style, "%s", shorten(strings.ReplaceAll(line, "\t", "    "), lineWidth))
	}
}

func (r *renderer) head(e *deckhandv1.Event) string {
	head := "--:--:--"
	if e.GetTime() != nil {
		head = e.GetTime().AsTime().Local().Format(time.TimeOnly)
	}
	if r.many {
		head += " " + termsafe.Line(e.GetTaskId())
	}
	return dim.Render(head) + " "
}

var (
	phaseStyle = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	toolStyle  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	waitStyle  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	failStyle  = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

func withReason(what, reason string) string {
	if reason == "" || what == "" {
		return what + reason
	}
	return what + " (" + reason + ")"
}

func iterated(phase, iteration string) string {
	if iteration == "" {
		return phase
	}
	return phase + " (iteration " + iteration + ")"
}

// shorten cuts a safe line to a width in cells.
func shorten(s string, width int) string { return ansi.Truncate(s, width, "…") }

// facts returns how a task ended, on one line.
func (a *app) facts(t *deckhandv1.Task) string {
	parts := []string{stateStyle(t.GetState()).Render(enumName(t.GetState()))}
	if t.GetStartedAt() != nil && t.GetFinishedAt() != nil {
		parts = append(parts, "in "+output.Duration(t.GetFinishedAt().AsTime().Sub(t.GetStartedAt().AsTime())))
	}
	parts = append(parts,
		fmt.Sprintf("%d iterations", t.GetIteration()), fmt.Sprintf("%d tokens", tokens(t.GetUsage())), cost(t.GetUsage()),
		termsafe.Line(modelName(t.GetProvider(), t.GetModel())), termsafe.Line(t.GetId()))
	return strings.Join(parts, ", ")
}
