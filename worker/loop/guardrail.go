package loop

import (
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/loopguard"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// guarded returns how the run ends if the agent repeats itself without
// progress, or nil. At the first finding the agent is told so, and has a few
// iterations to find another way.
func (r *run) guarded(turn *deckhandv1.Turn, results []model.Result) *Outcome {
	found := r.state.Guard.Observe(r.watched(turn, results))
	if found.Verdict == loopguard.GoOn {
		return nil
	}
	payload := map[string]any{"iteration": turn.GetTurn(), "kind": string(found.Kind), "finding": found.Text}
	if found.Verdict == loopguard.Nudge {
		payload["iterations_left"] = loopguard.Patience
		r.out.add(eventkind.GuardrailNudge, payload)
		r.state.Notes[turn.GetTurn()] = join(r.state.Notes[turn.GetTurn()], fmt.Sprintf(
			"Note: you seem to go round in circles: %s. Do not repeat these calls. Look at what they told you, and try another way; "+
				"if there is none, ask a person or call complete_task and say what is in the way. "+
				"If nothing new comes of the next %d turns, the run is paused.", found.Text, loopguard.Patience))
		return nil
	}
	r.out.add(eventkind.GuardrailStopped, payload)
	message := "the agent goes round in circles: " + found.Text
	return &Outcome{
		State: deckhandv1.TaskState_TASK_STATE_PAUSED, Code: fault.Stuck, Message: message,
		Reason: fmt.Sprintf("%s; tell it what to do otherwise (deckhand task message %s \"...\") and let it go on (deckhand task resume %s), or end it: deckhand task cancel %s",
			message, r.task.GetId(), r.task.GetId(), r.task.GetId()),
	}
}

// watched are a turn's calls as the guard sees them.
func (r *run) watched(turn *deckhandv1.Turn, results []model.Result) []loopguard.Call {
	calls := model.Calls(turn)
	out := make([]loopguard.Call, len(calls))
	for i, call := range calls {
		out[i] = loopguard.Call{Tool: call.GetName(), Arguments: call.GetArgumentsJson(), Result: results[i].Text, Failed: results[i].IsError}
		if step := r.steps[callKey{turn.GetTurn(), int32(i)}]; step != nil && call.GetName() != toolFind { //nolint:gosec // at most 64 are made
			out[i].Result = step.GetObservation()
			out[i].Changed = step.GetOutcome().GetFields()["files_changed"].GetNumberValue() > 0
		}
	}
	return out
}
