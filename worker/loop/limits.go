package loop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// limit is one of the persona's limits together with its current use.
type limit struct {
	kind string
	code fault.Code
	// most and now in the limit's own unit.
	most, now float64
	show      func(float64) string
}

// twice is double the limit, as one writes it.
func (l limit) twice() string {
	switch l.kind {
	case "active_time":
		return (time.Duration(2 * l.most * float64(time.Second))).String()
	case "cost_usd":
		return strconv.FormatFloat(2*l.most, 'f', -1, 64)
	case "file_size":
		return strings.ReplaceAll(bytesize.Format(int64(2*l.most)), " ", "")
	default:
		return strconv.FormatFloat(2*l.most, 'f', 0, 64)
	}
}

// limits returns all of them. Turns, tokens and cost follow from the turns, so
// a resumed run counts what its earlier attempts used.
func (r *run) limits() []limit {
	l, u := r.cfg.Persona.Limits, r.usage()
	files, largest := changedFiles(r.steps)
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return []limit{
		{"iterations", fault.MaxIterations, float64(l.Iterations), float64(r.state.Iteration), number},
		{"active_time", fault.ExecutionTimeout, l.ActiveTime.Seconds(), r.state.Active.Seconds(), func(v float64) string {
			return time.Duration(v * float64(time.Second)).Round(time.Second).String()
		}},
		{"tokens", fault.BudgetLimit, float64(l.Tokens), float64(u.GetLimitTokens()), number},
		{"calls", fault.BudgetLimit, float64(l.Calls), float64(int64(len(r.turns)) + r.state.Summaries), number},
		{"cost_usd", fault.BudgetLimit, l.CostUSD, float64(u.GetCostMicros()) / 1e6, usd},
		{"files", fault.BudgetLimit, float64(l.Files), files, number},
		{"file_size", fault.BudgetLimit, float64(l.FileSize), largest, func(v float64) string { return bytesize.Format(int64(v)) }},
	}
}

// changedFiles returns how many files the run has changed and the size of the largest, as the
// hub counted them with the newest step that changed some.
func changedFiles(steps map[callKey]*deckhandv1.Step) (files, largest float64) {
	var newest int32
	for _, step := range steps {
		fields := step.GetOutcome().GetFields()
		if count := fields[runFiles]; count != nil && step.GetNumber() >= newest {
			newest, files, largest = step.GetNumber(), count.GetNumberValue(), fields[runLargest].GetNumberValue()
		}
	}
	return files, largest
}

// runFiles and runLargest are the fields of a step's outcome with what the hub has counted.
const runFiles, runLargest = "run_files", "run_largest_file"

// limitReached returns how the run ends at a limit, or nil. A turn that is
// stored already is carried to its end first.
func (r *run) limitReached() *Outcome {
	if len(r.turns) > int(r.state.Iteration) {
		return nil
	}
	r.countTime()
	for _, l := range r.limits() {
		// While nothing was spent, a cost limit of 0 does not end the run.
		if l.now < l.most || l.now == 0 {
			continue
		}
		if slices.Contains(r.task.GetQuotaLimits(), l.kind) {
			return l.atQuota(r.out)
		}
		return r.atLimit(l, fmt.Sprintf("the limit of %s %s is reached (now %s)", l.show(l.most), l.kind, l.show(l.now)))
	}
	return nil
}

func usd(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 4, 64) }

// atLimit returns how the run ends at a limit: as the persona says.
func (r *run) atLimit(l limit, message string) *Outcome {
	r.out.add(eventkind.LimitReached, map[string]any{"kind": l.kind, "limit": l.most, "current": l.now})
	more := fmt.Sprintf("--limit %s=%s", l.kind, l.twice())
	if r.cfg.Persona.Limits.OnLimit == persona.PauseAtLimit {
		return &Outcome{
			State: deckhandv1.TaskState_TASK_STATE_PAUSED, Code: l.code, Message: message, Limit: l.kind,
			Reason: fmt.Sprintf("%s: let this run have more (deckhand task resume %s %s), or end it (deckhand task cancel %s)",
				message, r.task.GetId(), more, r.task.GetId()),
		}
	}
	return &Outcome{
		State: deckhandv1.TaskState_TASK_STATE_FAILED, Code: l.code, Message: message, Limit: l.kind,
		Reason: fmt.Sprintf("%s: raise limits.%s in the persona, or give a smaller goal, and run it again; or go on from here with more: deckhand task resume-from %s %s",
			message, l.kind, r.task.GetId(), more),
	}
}

// atQuota returns how the run ends when it has used what a quota leaves it: the hub puts it back
// into the queue, where it waits for more.
func (l limit) atQuota(out *outbox) *Outcome {
	message := fmt.Sprintf("the quota leaves this run %s %s, and they are used", l.show(l.most), l.kind)
	out.add(eventkind.LimitReached, map[string]any{"kind": l.kind, "limit": l.most, "current": l.now, "quota": true})
	return &Outcome{
		State: deckhandv1.TaskState_TASK_STATE_PAUSED, Code: l.code, Message: message, Limit: l.kind, Reason: message + ": deckhand quota show",
	}
}

// warn informs people and the model, once, that 80 % of a limit is used.
func (r *run) warn() {
	for _, l := range r.limits() {
		if l.now < 0.8*l.most || l.now == 0 || slices.Contains(r.state.Warned, l.kind) {
			continue
		}
		r.state.Warned = append(r.state.Warned, l.kind)
		r.out.add(eventkind.LimitWarning, map[string]any{"kind": l.kind, "limit": l.most, "current": l.now})
		note := fmt.Sprintf("Note: %s of %s %s are used. Come to an end: finish what matters most, then call complete_task.",
			l.show(l.now), l.show(l.most), l.kind)
		if before := r.state.Notes[r.state.Iteration]; before != "" {
			note = before + "\n" + note
		}
		r.state.Notes[r.state.Iteration] = note
	}
}

// countTime adds the time since it was last called to the task's active time.
func (r *run) countTime() {
	now := r.cfg.Now()
	r.state.Active += now.Sub(r.since)
	r.since = now
}

// usage adds up all turns.
func (r *run) usage() *deckhandv1.Usage {
	sum := &deckhandv1.Usage{}
	for _, turn := range r.turns {
		u := turn.GetUsage()
		sum.InputTokens += u.GetInputTokens()
		sum.OutputTokens += u.GetOutputTokens()
		sum.CacheReadTokens += u.GetCacheReadTokens()
		sum.CacheWriteTokens += u.GetCacheWriteTokens()
		sum.CostMicros += u.GetCostMicros()
		sum.LimitTokens += u.GetLimitTokens()
	}
	return sum
}

func usagePayload(u *deckhandv1.Usage) map[string]any {
	return map[string]any{
		"input_tokens": u.GetInputTokens(), "output_tokens": u.GetOutputTokens(),
		"cache_read_tokens": u.GetCacheReadTokens(), "cache_write_tokens": u.GetCacheWriteTokens(),
		"cost_micros": u.GetCostMicros(),
	}
}

func limitsPayload(l persona.Limits) map[string]any {
	return map[string]any{
		"iterations": l.Iterations, "active_time_s": l.ActiveTime.Seconds(), "tokens": l.Tokens, "calls": l.Calls, "cost_usd": l.CostUSD,
		"files": l.Files, "file_size_bytes": l.FileSize,
	}
}
