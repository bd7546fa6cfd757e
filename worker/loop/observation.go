package loop

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

const (
	// The model sees this many bytes of a result's head and tail.
	observationHead = 12 << 10
	observationTail = 12 << 10
	// leastShare is the least that it sees of one among many.
	leastShare = 2 << 10
)

// results returns what came of each call of a turn, in the order of the calls.
func (r *run) results(turn *deckhandv1.Turn) []model.Result {
	calls := model.Calls(turn)
	out := make([]model.Result, len(calls))
	// Many results at once share what one turn may take of the window.
	share := max(leastShare, min(observationHead+observationTail, r.window.limit*perToken/3/max(1, len(calls))))
	for i, call := range calls {
		out[i] = model.Result{CallID: call.GetId(), Tool: call.GetName(), Via: call.GetVia()}
		step := r.steps[callKey{turn.GetTurn(), int32(i)}]
		reject := r.reject(turn, i)
		if reject == nil && step == nil && r.ends(call.GetName()) {
			reject = r.refuseCompletion(turn, i)
		}
		switch {
		case reject != nil:
			out[i].Text, out[i].IsError = errorText(reject), true
		case step == nil:
			out[i].Text, out[i].IsError = "error: the call was not made", true
		default:
			out[i].Text, out[i].Images = fence(step, shorten(step, share)), step.GetImages()
			if call.GetName() == toolFind && step.GetState() == deckhandv1.StepState_STEP_STATE_SUCCEEDED {
				out[i].Text = describe(r.find(call.GetArgumentsJson()))
			}
			out[i].IsError = !well(step)
		}
	}
	return out
}

// errorText formats an error of the loop itself for the model, with its code.
func errorText(e *fault.Error) string {
	text := "error"
	if e.Code != "" {
		text += " " + string(e.Code)
	}
	text += ": " + e.Message
	if e.Fix != "" {
		text += ". To do: " + e.Fix
	}
	return text
}

// shorten returns an observation, or its head and tail with a citation of what
// was left out. It cuts at lines where there are any near.
func shorten(step *deckhandv1.Step, most int) string {
	text := step.GetObservation()
	if text == "" && step.GetDecisionReason() != "" {
		text = step.GetDecisionReason()
	}
	if len(text) <= most {
		return text
	}
	head, tail := cutHead(text, most/2), cutTail(text, most/2)
	from, to := len(head), len(text)-len(tail)
	more := ""
	if step.GetTool() == toolname.ShellExec {
		more = fmt.Sprintf("; to read the output: %s {\"job\": %q, \"offset\": 0}", toolname.JobOutput, step.GetId())
	}
	return fmt.Sprintf("%s\n[... bytes %d to %d of %d of the result of step %s left out%s ...]\n%s",
		strings.TrimRight(head, "\n"), from, to, len(text), step.GetId(), more, tail)
}

// near is how far from the wanted place a line's end is looked for.
const near = 512

func cutHead(text string, n int) string {
	if at := strings.LastIndexByte(text[n-near:n], '\n'); at >= 0 {
		return text[:n-near+at+1]
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func cutTail(text string, n int) string {
	start := len(text) - n
	if at := strings.IndexByte(text[start:start+near], '\n'); at >= 0 {
		return text[start+at+1:]
	}
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

// fenceMark matches text that could be mistaken for the fence itself, or for a
// message from a person.
var fenceMark = regexp.MustCompile(`(?i)<(\s*/?\s*(?:tool_output|operator_message))`)

// fence marks a result as data: whatever it says, it is not an instruction. The
// marks cannot be forged from inside.
func fence(step *deckhandv1.Step, text string) string {
	text = fenceMark.ReplaceAllString(text, `<\$1`)
	return fmt.Sprintf("<tool_output step=%q tool=%q status=%q>\n%s\n</tool_output>",
		step.GetId(), step.GetTool(), stepStatus(step), strings.TrimRight(text, "\n"))
}

func stepStatus(step *deckhandv1.Step) string {
	if exited(step) {
		return "succeeded" // the call did: the text has the command's status
	}
	return strings.ToLower(strings.TrimPrefix(step.GetState().String(), "STEP_STATE_"))
}
