package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

const (
	toolPlan     = toolname.UpdatePlan
	toolComplete = toolname.CompleteTask
	toolHandoff  = toolname.HandoffToAgent
	// maxCalls is how many calls of one turn are made.
	maxCalls = 64
	// maxParallel is how many of them run at once.
	maxParallel = 8
	// holdsAtLeast is how long a call that the hub holds takes, at the least.
	holdsAtLeast = 2 * time.Second
)

// normalise makes a turn fit to be stored: numbered, and its calls with ids
// that differ.
func normalise(turn *deckhandv1.Turn, number, attempt int32) {
	turn.Turn, turn.Attempt = number, attempt
	unwrap(turn)
	seen := map[string]bool{}
	for i, call := range model.Calls(turn) {
		if call.GetId() == "" || seen[call.GetId()] {
			call.Id = fmt.Sprintf("call_%d_%d", number, i)
		}
		seen[call.GetId()] = true
	}
}

// reject returns why a call is not even proposed, or nil. It is a function of
// the turn and the tools, so that every attempt gets the same result.
func (r *run) reject(turn *deckhandv1.Turn, index int) *fault.Error {
	call := model.Calls(turn)[index]
	if index >= maxCalls {
		return fault.New(fault.Invalid, "call %d of the turn was not made: at most %d are made in one turn", index+1, maxCalls).
			WithCode(fault.InvalidParameters).WithFix("make it in your next turn")
	}
	switch turn.GetStopReason() {
	case model.StopRefusal:
		return fault.New(fault.Precondition, "the call was not made: the provider refused the turn that it is part of").WithCode(fault.ModelUnavailable)
	case model.StopMaxTokens:
		return fault.New(fault.Invalid, "the call was not made: your output was cut off at %d tokens, and a call of it may be incomplete", r.cfg.Persona.MaxTokens).
			WithCode(fault.InvalidParameters).WithFix("write smaller pieces: make fewer calls in a turn, and write long files in parts")
	}
	tool := r.tools[call.GetName()]
	if tool == nil {
		return fault.New(fault.Invalid, "there is no tool %.100q", call.GetName()).
			WithCode(fault.ToolNotFound).WithFix("use one of %s", strings.Join(toolNames(r.cfg.Claim.GetTools()), ", "))
	}
	arguments, err := toolargs.Check(tool, call.GetArgumentsJson())
	if err != nil {
		return fault.As(err)
	}
	if call.GetName() == toolPlan {
		if _, err := newPlan(arguments); err != nil {
			return fault.New(fault.Invalid, "the plan was not taken: %s", err).
				WithCode(fault.InvalidParameters).WithFix("send the whole plan again, corrected")
		}
	}
	return nil
}

// ends reports whether a call of that tool ends the run.
func (r *run) ends(tool string) bool { return r.tools[tool].GetEnds() }

// refuseCompletion returns why a call that ends the run is not made after the
// turn's other calls, or nil: a call of the same turn whose end the model has not
// seen may have failed. A run ends once: a handoff is not made beside another
// such call.
func (r *run) refuseCompletion(turn *deckhandv1.Turn, index int) *fault.Error {
	if r.steps[callKey{turn.GetTurn(), int32(index)}] != nil {
		return nil // the hub has it already
	}
	for i, call := range model.Calls(turn) {
		if i == index {
			continue
		}
		if r.ends(call.GetName()) {
			if names := [...]string{call.GetName(), model.Calls(turn)[index].GetName()}; slices.Contains(names[:], toolHandoff) {
				return fault.New(fault.Precondition, "the turn ends the run more than once, with %s and %s", names[0], names[1]).
					WithCode(fault.InvalidParameters).WithFix("call one of them")
			}
			continue
		}
		step := r.steps[callKey{turn.GetTurn(), int32(i)}]
		if !well(step) {
			return fault.New(fault.Precondition, "the task was not completed, because the call of %s in the same turn did not succeed", call.GetName()).
				WithCode(fault.ToolFailed).WithFix("look at its result first")
		}
	}
	if open := r.openItems(turn, index); len(open) > 0 {
		return fault.New(fault.Precondition, "the task was not completed, because your plan has open items: %s", strings.Join(open, "; ")).
			WithCode(fault.InvalidParameters).
			WithFix("do them; or call complete_task again, with status partial if they are still to be done, or with done if they are done or not needed")
	}
	return nil
}

// decidable returns the calls that the hub may decide with the turn: all but the
// rejected ones, and those that end the run only where nothing has to succeed
// before them.
func (r *run) decidable(turn *deckhandv1.Turn) []int32 {
	var out []int32
	for i, call := range model.Calls(turn) {
		if r.reject(turn, i) == nil && (!r.ends(call.GetName()) || r.refuseCompletion(turn, i) == nil) {
			out = append(out, int32(i))
		}
	}
	return out
}

// errWaits says that a call waits for a person or another task, and the turn's
// later ones for it.
var errWaits = errors.New("a call waits for a person or another task")

// act is phase 5: it makes the turn's calls. Adjacent calls of read-only tools
// run in parallel, and so do adjacent calls that create subtasks; all others
// run one after the other, and a call that ends the run comes last. A call that
// ended in an earlier attempt is not made again. At the first call that waits,
// act stops with errWaits, because a later call may depend on it; approval of
// all of them has been requested.
func (r *run) act(ctx context.Context, turn *deckhandv1.Turn) error {
	r.phase.enter("execute_action", map[string]any{"calls": len(model.Calls(turn))})
	r.out.flushSoon(ctx)
	calls := model.Calls(turn)
	var group, completions []int
	spawning := false // of the group
	run := func() error {
		err := r.execute(ctx, turn, group)
		group = nil
		return err
	}
	for i, call := range calls {
		switch {
		case r.reject(turn, i) != nil:
			continue
		case r.ends(call.GetName()):
			completions = append(completions, i)
			continue
		case len(group) > 0 && spawning != r.tools[call.GetName()].GetSpawns():
			if err := run(); err != nil {
				return err
			}
		}
		tool := r.tools[call.GetName()]
		spawning = tool.GetSpawns()
		if !tool.GetReadOnly() && !spawning {
			// Whatever changes something is a fence for what reads.
			if err := run(); err != nil {
				return err
			}
			group = append(group, i)
			if err := run(); err != nil {
				return err
			}
			continue
		}
		group = append(group, i)
	}
	if err := run(); err != nil {
		return err
	}
	for _, i := range completions {
		if r.refuseCompletion(turn, i) == nil {
			if err := r.execute(ctx, turn, []int{i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// execute proposes calls in order and runs them side by side.
func (r *run) execute(ctx context.Context, turn *deckhandv1.Turn, indices []int) error {
	for _, i := range indices {
		if err := r.propose(ctx, turn, i, len(indices) == 1); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	free := make(chan struct{}, maxParallel)
	results := make([]*deckhandv1.Step, len(indices))
	var wg sync.WaitGroup
	for n, i := range indices {
		step := r.steps[callKey{turn.GetTurn(), int32(i)}]
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			done, err := r.await(ctx, step)
			if err != nil {
				cancel(err) // the first error is the cause for all
				return
			}
			results[n] = done
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	waits := false
	for n, i := range indices {
		r.steps[callKey{turn.GetTurn(), int32(i)}] = results[n]
		waits = waits || waiting(results[n].GetState())
	}
	if waits {
		return errWaits
	}
	return nil
}

// propose asks the hub to decide a new call, or to return the current state of
// one that was waiting. A call that is made alone is executed at once.
func (r *run) propose(ctx context.Context, turn *deckhandv1.Turn, index int, alone bool) error {
	key := callKey{turn.GetTurn(), int32(index)}
	if known := r.steps[key]; known != nil && !waiting(known.GetState()) {
		return nil
	}
	call := model.Calls(turn)[index]
	return r.hub.do(ctx, "propose a step", func(ctx context.Context) error {
		res, err := r.hub.hub.ProposeStep(ctx, &deckhandv1.ProposeStepRequest{
			Lease: r.hub.lease, Turn: key.turn, CallIndex: key.index, CallId: bounded(call.GetId(), 256),
			Tool: call.GetName(), ArgumentsJson: call.GetArgumentsJson(), Reasoning: bounded(reasoning(turn), 8<<10),
			AtOnce: alone,
		})
		if err == nil {
			r.steps[key] = res.GetStep()
		}
		return err
	})
}

// await runs a granted step, or re-attaches to a started one, until it ended or
// waits for a person.
func (r *run) await(ctx context.Context, step *deckhandv1.Step) (*deckhandv1.Step, error) {
	crashpoint.At(crashpoint.AfterGrant, r.task.GetId(), step.GetId())
	for quick := 0; !final(step.GetState()) && !waiting(step.GetState()); {
		asked := r.cfg.Now()
		err := r.hub.do(ctx, "execute a step", func(ctx context.Context) error {
			res, err := r.hub.hub.ExecuteStep(ctx, &deckhandv1.ExecuteStepRequest{
				Lease: r.hub.lease, StepId: step.GetId(),
			})
			if err == nil {
				step = res.GetStep()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		// The hub blocks the call for up to 20 s. If it replies "not yet"
		// immediately, this must not become a busy loop.
		if final(step.GetState()) || waiting(step.GetState()) || r.cfg.Now().Sub(asked) > holdsAtLeast {
			quick = 0
			continue
		}
		quick++
		if err := backoff.Wait(ctx, r.cfg.Backoff.Delay(quick)); err != nil {
			return nil, err
		}
	}
	return step, nil
}

func final(s deckhandv1.StepState) bool {
	switch s {
	case deckhandv1.StepState_STEP_STATE_DENIED, deckhandv1.StepState_STEP_STATE_SUCCEEDED,
		deckhandv1.StepState_STEP_STATE_FAILED, deckhandv1.StepState_STEP_STATE_SKIPPED,
		deckhandv1.StepState_STEP_STATE_CANCELLED, deckhandv1.StepState_STEP_STATE_DEFERRED:
		return true
	default:
		return false
	}
}

// well reports whether the model may rely on a call's result: the call
// succeeded, or ran a command to its end, or is deferred until a person accepts the run.
func well(step *deckhandv1.Step) bool {
	switch step.GetState() {
	case deckhandv1.StepState_STEP_STATE_SUCCEEDED, deckhandv1.StepState_STEP_STATE_DEFERRED:
		return true
	default:
		return exited(step)
	}
}

// exited reports whether a step ran a command that ended with an exit status other than 0.
// People see it as failed; to the model the status is a result.
func exited(step *deckhandv1.Step) bool {
	return step.GetState() == deckhandv1.StepState_STEP_STATE_FAILED && step.GetErrorCode() == string(fault.CommandFailed)
}

// waiting reports whether the step continues after somebody else acts: a person
// who approves the call or resolves its outcome, or another task.
func waiting(s deckhandv1.StepState) bool {
	return s == deckhandv1.StepState_STEP_STATE_WAITING || s == deckhandv1.StepState_STEP_STATE_UNKNOWN
}

// completed returns how a call of the turn ended the run; nil if none did. A call that
// says that the run is blocked asks a person, and the run goes on with the answer.
func (r *run) completed(turn *deckhandv1.Turn) *Outcome {
	for i, call := range model.Calls(turn) {
		step := r.steps[callKey{turn.GetTurn(), int32(i)}]
		if !r.ends(call.GetName()) || step.GetState() != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
			continue
		}
		if call.GetName() == toolHandoff {
			return &Outcome{
				State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED, Reason: "the agent has " + step.GetObservation(),
				Summary: handoffSummary(call.GetArgumentsJson(), step),
			}
		}
		said := completionOf(call.GetArgumentsJson())
		out := &Outcome{State: deckhandv1.TaskState_TASK_STATE_FAILED, Summary: said.text()}
		switch said.Status {
		case toolargs.StatusBlocked:
			continue
		case toolargs.StatusPartial:
			out.Code, out.Message = fault.PartlyDone, "the agent did a part of it: "+firstLine(said.Summary)
			out.Reason = "partly done: read what is left in the summary"
		case toolargs.StatusFailed:
			out.Code, out.Message = fault.GivenUp, "the agent says that the goal cannot be reached: "+firstLine(said.Summary)
			out.Reason = out.Message
		default:
			out.State, out.Reason = deckhandv1.TaskState_TASK_STATE_SUCCEEDED, "completed by the agent"
		}
		return out
	}
	return nil
}

// openItems returns the titles of plan items that are open while a call says that all is
// done. It is asked about once: after that the agent is believed.
func (r *run) openItems(turn *deckhandv1.Turn, index int) []string {
	done := func(call *deckhandv1.Block_ToolCall) bool {
		return call.GetName() == toolComplete && completionOf(call.GetArgumentsJson()).Status == toolargs.StatusDone
	}
	if !done(model.Calls(turn)[index]) {
		return nil
	}
	for _, earlier := range r.turns[:min(int(turn.GetTurn())-1, len(r.turns))] {
		if slices.ContainsFunc(model.Calls(earlier), done) {
			return nil
		}
	}
	p, _ := r.planUpTo(min(turn.GetTurn(), int32(len(r.turns)))) //nolint:gosec // at most 1 000
	if p == nil {
		return nil
	}
	var open []string
	for _, item := range p.Items {
		if item.Status == "pending" || item.Status == "in_progress" {
			open = append(open, item.Title)
		}
	}
	return open
}
