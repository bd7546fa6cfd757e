// Package event prints the events of tasks: Print for programs, PrintLines with
// a Renderer for people. Text of agents and commands is made safe for a terminal
// first.
package event

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/inbox"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// blockLines bounds what is shown of one observation; the step's log has all of
// it.
const blockLines = 12

// Detail is how much of what happens is shown.
type Detail int

const (
	// PhasesOnly shows where a task stands: states, phases, tools, trouble.
	PhasesOnly Detail = iota
	// Everything shows reasoning, arguments and results too.
	Everything
)

// Renderer turns events into lines for people. Types and payloads are those of
// docs/events.md; one that it does not know is shown by its name and payload,
// so that nothing that happened is kept from the reader.
type Renderer struct {
	Detail Detail
	// Many says that several tasks are watched: each line names its task.
	Many bool
	line func(string)
	// Observation returns what a step gave back; events do not carry it.
	Observation func(taskID, stepID string) string
}

// event shows one event.
func (r *Renderer) event(e *deckhandv1.Event) {
	p := e.GetPayload()
	get := func(name string) string { return termsafe.Line(output.Field(p, name)) }
	switch e.GetType() {
	case "task.submitted":
		r.show(e, "task", output.Dim, "%s, for agent %s", termsafe.Line(e.GetTaskId()), get("agent"))
	case "state_changed":
		state := deckhandv1.TaskState(deckhandv1.TaskState_value["TASK_STATE_"+strings.ToUpper(get("to"))])
		r.show(e, "state", output.StateStyle(state), "%s", output.WithReason(get("to"), get("reason")))
	case "execution_started", "execution_resumed":
		r.show(e, "begin", output.Dim, "attempt %s, %s", get("attempt"), output.ModelName(get("provider"), get("model")))
	case "phase_changed":
		r.show(e, "phase", output.PhaseStyle, "%s", iterated(get("phase"), get("iteration")))
	case "tool_selected":
		r.show(e, "call", output.ToolStyle, "%s %s", get("tool"), r.arguments(p))
	case "tool_completed":
		r.toolCompleted(e)
	case "tool_denied", "tool_rejected":
		r.show(e, "no", output.FailStyle, "%s %s", get("tool"), output.WithReason(get("reason")+get("message"), get("error_code")))
	case "approval_requested":
		r.asked(e, "approval")
	case "input_required":
		r.asked(e, "question")
	case "outcome_unknown":
		r.asked(e, "unknown")
	case "inbox_answered":
		r.show(e, "inbox", output.WaitStyle, "%s answered %s: %s", get("by"), get("item_id"), output.WithReason(get("answer"), get("reason")))
	case "inbox_expired":
		r.show(e, "inbox", output.FailStyle, "nobody answered %s in time: %s", get("item_id"), get("on_expiry"))
	case "work_stopped":
		r.show(e, "inbox", output.WaitStyle, "%s (deckhand inbox show %s)", get("title"), get("item_id"))
	case "credential_used":
		style := output.Dim
		if get("problems") != "0" {
			style = output.FailStyle
		}
		requests := get("requests") + " requests, the last one"
		if get("requests") == "1" {
			requests = "1 request,"
		}
		r.show(e, "with", style, "%s: %s %s %s%s %s", get("credential"), requests, get("method"), get("host"), get("path"), output.WithReason(get("status"), get("problem")))
	case "egress_refused":
		r.refused(e)
	case "limit_warning", "limit_reached":
		now, most := get("current"), get("limit")
		if get("kind") == "file_size" {
			fields := p.GetFields()
			now, most = bytesize.Format(int64(fields["current"].GetNumberValue())), bytesize.Format(int64(fields["limit"].GetNumberValue()))
		}
		r.show(e, "limit", output.FailStyle, "%s: %s of %s used", get("kind"), now, most)
	case "image_pulling":
		r.pulling(e)
	case "image_setup":
		r.show(e, "setup", output.Dim, "command %s of %s: %s", get("line"), get("lines"), literal.Line(output.Field(p, "command")))
	case "image_ready":
		r.show(e, "image", output.Dim, "%s", termsafe.Line(output.Field(p, "reference")))
	case "model_failover":
		r.show(e, "model", output.FailStyle, "%s goes on for %s", output.ModelName(get("to_provider"), get("to_model")),
			output.WithReason(output.ModelName(get("from_provider"), get("from_model")), get("reason")))
	case "agent.suspended":
		r.show(e, "agent", output.FailStyle, "%s is suspended: %s; when you have looked: %s", get("agent"), get("reason"), get("fix"))
	case "execution_failed", "execution_paused":
		r.show(e, "stop", output.FailStyle, "%s", output.WithReason(get("message"), get("error_code")))
	case "tool_executing", "execution_completed", "execution_cancelled", "agent.spawned":
		// What these say is said by calls and states.
	default:
		if r.Detail == Everything {
			r.detailed(e)
		}
	}
}

// detailed shows what is left out of a mere progress display.
func (r *Renderer) detailed(e *deckhandv1.Event) {
	p := e.GetPayload()
	switch e.GetType() {
	case "thinking":
		r.block(e, "think", output.Dim, output.Field(p, "text"))
	case "plan_updated":
		for _, value := range p.GetFields()["items"].GetListValue().GetValues() {
			item := value.GetStructValue()
			r.show(e, "plan", output.Dim, "%-11s %s", termsafe.Line(output.Field(item, "status")), output.Shorten(termsafe.Line(output.Field(item, "title")), output.LineWidth))
		}
	case "iteration_complete":
		reflection := p.GetFields()["reflection"].GetStructValue()
		r.block(e, "saw", output.Dim, output.Field(reflection, "what_happened"))
		r.spent(e, p.GetFields()["usage"].GetStructValue())
	case "progress_update":
		next := output.Shorten(termsafe.Line(output.Field(p, "next_action")), output.LineWidth)
		r.show(e, "next", output.Dim, "%.0f%% %s", 100*p.GetFields()["progress"].GetNumberValue(), next)
	case "checkpoint_created":
		if name := output.Field(p, "name"); name != "" { // one without belongs to every iteration
			r.show(e, "checkpoint", output.Dim, "%s", termsafe.Line(name))
		}
	default:
		r.show(e, "event", output.Dim, "%s %s", termsafe.Line(e.GetType()), output.Shorten(output.Arguments(p), output.LineWidth))
	}
}

// pulling shows how far the pull of a jail's image is.
func (r *Renderer) pulling(e *deckhandv1.Event) {
	p := e.GetPayload()
	number := func(name string) float64 { return p.GetFields()[name].GetNumberValue() }
	if output.Field(p, "phase") == "preparing" {
		r.show(e, "image", output.Dim, "preparing %s", termsafe.Line(output.Field(p, "image")))
		return
	}
	r.show(e, "image", output.Dim, "pulling %s: %s of %s, %.0f of %.0f layers", termsafe.Line(output.Field(p, "image")),
		bytesize.Format(int64(number("bytes_done"))), bytesize.Format(int64(number("bytes"))), number("layers_done"), number("layers"))
}

// asked shows an item that waits for a person, and the command that answers it.
func (r *Renderer) asked(e *deckhandv1.Event, kind string) {
	p := e.GetPayload()
	get := func(name string) string { return termsafe.Line(output.Field(p, name)) }
	what := map[string]string{
		"approval": get("tool") + " waits for approval", "question": "the agent asks", "unknown": "nobody knows whether " + get("tool") + " took effect",
	}[kind]
	if until := get("expires_at"); until != "" {
		what += ", until " + until
	}
	r.show(e, "asks", output.WaitStyle, "%s", what)
	r.block(e, "what", output.WaitStyle, literal.Block(output.Field(p, "preview")))
	r.show(e, "asks", output.WaitStyle, "answer it: %s", inbox.Commands(kind, output.Field(p, "item_id")))
}

func (r *Renderer) arguments(p *structpb.Struct) string {
	width := output.LineWidth
	if r.Detail == PhasesOnly {
		width /= 2
	}
	return output.Shorten(output.Arguments(p.GetFields()["arguments"].GetStructValue()), width)
}

func (r *Renderer) toolCompleted(e *deckhandv1.Event) {
	p := e.GetPayload()
	get := func(name string) string { return termsafe.Line(output.Field(p, name)) }
	style := output.ToolStyle
	if get("state") != "succeeded" {
		style = output.FailStyle
	}
	facts := []string{get("tool"), get("state")}
	if code := output.Field(p.GetFields()["outcome"].GetStructValue(), "exit_code"); code != "" {
		facts = append(facts, "exit "+termsafe.Line(code))
	}
	if code := get("error_code"); code != "" {
		facts = append(facts, code)
	}
	if ms, ok := p.GetFields()["duration_ms"]; ok {
		facts = append(facts, "in "+output.Duration(time.Duration(ms.GetNumberValue())*time.Millisecond))
	}
	r.show(e, "done", style, "%s", strings.Join(facts, " "))
	if r.Detail == Everything && r.Observation != nil {
		r.block(e, "saw", lipgloss.NewStyle(), r.Observation(e.GetTaskId(), output.Field(p, "step_id")))
	}
}

// refused shows what a command wanted to reach and may not, with what would allow
// it.
func (r *Renderer) refused(e *deckhandv1.Event) {
	for _, value := range e.GetPayload().GetFields()["refused"].GetListValue().GetValues() {
		one := value.GetStructValue()
		text := output.Field(one, "method") + ": " + output.Field(one, "reason")
		if allow := output.Field(one, "allow"); allow != "" {
			text += "; the persona would have to say " + allow
		}
		r.show(e, "net", output.FailStyle, "%s", output.Shorten(termsafe.Line(text), refusalWidth))
	}
}

// refusalWidth leaves room for the rule, which is there to be copied.
const refusalWidth = 400

// spent shows what an iteration's turn cost.
func (r *Renderer) spent(e *deckhandv1.Event, usage *structpb.Struct) {
	number := func(name string) float64 { return usage.GetFields()[name].GetNumberValue() }
	total := number("input_tokens") + number("output_tokens") + number("cache_read_tokens") + number("cache_write_tokens")
	r.show(e, "cost", output.Dim, "%.0f tokens, $%.4f", total, number("cost_micros")/1e6)
}

// show writes one line: time, task where there are several, label, text.
func (r *Renderer) show(e *deckhandv1.Event, label string, style lipgloss.Style, format string, args ...any) {
	line := r.head(e) + style.Render(fmt.Sprintf("%-5s", label)) + " " + fmt.Sprintf(format, args...)
	r.line(strings.TrimRight(line, " "))
}

// block writes texts with their lines kept, each behind the label.
func (r *Renderer) block(e *deckhandv1.Event, label string, style lipgloss.Style, texts ...string) {
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
		r.show(e, label, style, "%s", output.Shorten(strings.ReplaceAll(line, "\t", "    "), output.LineWidth))
	}
}

func (r *Renderer) head(e *deckhandv1.Event) string {
	head := "--:--:--"
	if e.GetTime() != nil {
		head = e.GetTime().AsTime().Local().Format(time.TimeOnly)
	}
	if r.Many {
		head += " " + termsafe.Line(e.GetTaskId())
	}
	return output.Dim.Render(head) + " "
}

func iterated(phase, iteration string) string {
	if iteration == "" {
		return phase
	}
	return phase + " (iteration " + iteration + ")"
}
