package loop

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/plantree"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// reflection closes an iteration. It is drawn from the plan and the results,
// without asking a model.
type reflection struct {
	achieved bool
	progress float64
	happened string
	issues   []string
	next     string
	person   bool
}

func (r *run) reflect(turn *deckhandv1.Turn, results []model.Result, out *Outcome) reflection {
	calls := model.Calls(turn)
	ref := reflection{progress: r.state.Progress}
	var done, failed int
	for i, result := range results {
		if !result.IsError {
			done++
			continue
		}
		failed++
		const most = 5
		if len(ref.issues) < most {
			ref.issues = append(ref.issues, fmt.Sprintf("%s: %s", calls[i].GetName(), firstLine(r.issue(turn, i, result))))
		}
	}
	switch {
	case len(calls) == 0:
		ref.happened = "the model answered without calling a tool"
	case failed == 0:
		ref.happened = fmt.Sprintf("%d of %d calls succeeded", done, len(calls))
	default:
		ref.happened = fmt.Sprintf("%d of %d calls succeeded, %d did not", done, len(calls), failed)
	}
	if p, _ := r.plan(); p != nil {
		// A plan may grow; only its completion is certainty.
		ref.progress, ref.next = min(plantree.Progress(p.Items), 0.99), p.next()
	}
	switch {
	case out == nil && len(calls) == 0:
		ref.next = "remind the model to call complete_task or to go on"
	case out == nil && failed > 0:
		ref.next = strings.TrimSuffix("deal with what failed; then "+ref.next, "; then ")
	case out != nil && out.State == deckhandv1.TaskState_TASK_STATE_SUCCEEDED:
		ref.achieved, ref.progress, ref.next = true, 1, ""
	case out != nil:
		ref.next, ref.person = out.Reason, true
		ref.issues = append(ref.issues, out.Message)
	}
	return ref
}

// issue returns what went wrong with a call, without the fence.
func (r *run) issue(turn *deckhandv1.Turn, index int, result model.Result) string {
	if step := r.steps[callKey{turn.GetTurn(), int32(index)}]; step != nil {
		return shorten(step, leastShare)
	}
	return result.Text
}

func (ref reflection) payload() map[string]any {
	return map[string]any{
		"goal_achieved": ref.achieved, "progress": ref.progress, "what_happened": ref.happened,
		"issues": ref.issues, "next_action": ref.next, "needs_person": ref.person,
	}
}

// observed sums up, for the phase's event, what came of the turn's calls.
func observed(results []model.Result) map[string]any {
	var succeeded, failed, bytes int
	for _, result := range results {
		if result.IsError {
			failed++
		} else {
			succeeded++
		}
		bytes += len(result.Text)
	}
	return map[string]any{"succeeded": succeeded, "failed": failed, "bytes": bytes}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return bounded(line, 300)
}
