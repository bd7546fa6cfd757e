package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

const (
	toolPlan     = "update_plan"
	toolComplete = "complete_task"
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
	seen := map[string]bool{}
	for i, call := range model.Calls(turn) {
		if call.GetId() == "" || seen[call.GetId()] {
			call.Id = fmt.Sprintf("call_%d_%d", number, i)
		}
		seen[call.GetId()] = true
	}
}

// reject answers why a call is not even proposed, or nil. It is a function of
// the turn and the tools, so that every attempt answers the same.
func (r *run) reject(turn *deckhandv1.Turn, index int) *fault.Error {
	call := model.Calls(turn)[index]
	if index >= maxCalls {
		return fault.New(fault.Invalid, "call %d of the turn was not made: at most %d are made in one turn", index+1, maxCalls).
			WithCode(fault.InvalidParameters).WithFix("make it in your next turn")
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

// refuseCompletion answers why complete_task is not made after the turn's other
// calls, or nil: a call of the same turn whose end the model has not seen may
// have failed.
func (r *run) refuseCompletion(turn *deckhandv1.Turn, index int) *fault.Error {
	if r.steps[callKey{turn.GetTurn(), int32(index)}] != nil {
		return nil // the hub has it already
	}
	for i, call := range model.Calls(turn) {
		if i == index || call.GetName() == toolComplete {
			continue
		}
		step := r.steps[callKey{turn.GetTurn(), int32(i)}]
		if step.GetState() != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
			return fault.New(fault.Precondition, "the task was not completed, because the call of %s in the same turn did not succeed", call.GetName()).
				WithCode(fault.ToolFailed).WithFix("look at its result first")
		}
	}
	return nil
}

// act is phase 5: it makes the turn's calls. Calls of read-only tools that stand
// side by side run in parallel, all others one after the other, and
// complete_task comes last. What ended in an earlier attempt is not made again.
func (r *run) act(ctx context.Context, turn *deckhandv1.Turn) error {
	r.phase.enter("execute_action", map[string]any{"calls": len(model.Calls(turn))})
	if err := r.out.flush(ctx); err != nil {
		return err
	}
	calls := model.Calls(turn)
	var group, completions []int
	run := func() error {
		err := r.execute(ctx, turn, group)
		group = nil
		return err
	}
	for i, call := range calls {
		switch {
		case r.reject(turn, i) != nil:
			continue
		case call.GetName() == toolComplete:
			completions = append(completions, i)
			continue
		case !r.tools[call.GetName()].GetReadOnly():
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
		if err := r.propose(ctx, turn, i); err != nil {
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
	for n, i := range indices {
		r.steps[callKey{turn.GetTurn(), int32(i)}] = results[n]
	}
	return nil
}

// propose has the hub decide a call that it does not know yet.
func (r *run) propose(ctx context.Context, turn *deckhandv1.Turn, index int) error {
	key := callKey{turn.GetTurn(), int32(index)}
	if r.steps[key] != nil {
		return nil
	}
	call := model.Calls(turn)[index]
	return r.hub.do(ctx, "propose a step", func(ctx context.Context) error {
		res, err := r.hub.hub.ProposeStep(ctx, connect.NewRequest(&deckhandv1.ProposeStepRequest{
			Lease: r.hub.lease, Turn: key.turn, CallIndex: key.index, CallId: bounded(call.GetId(), 256),
			Tool: call.GetName(), ArgumentsJson: call.GetArgumentsJson(), Reasoning: bounded(reasoning(turn), 8<<10),
		}))
		if err == nil {
			r.steps[key] = res.Msg.GetStep()
		}
		return err
	})
}

// await runs a granted step, or re-attaches to a started one, until it ended.
func (r *run) await(ctx context.Context, step *deckhandv1.Step) (*deckhandv1.Step, error) {
	for quick := 0; !final(step.GetState()); {
		if step.GetState() == deckhandv1.StepState_STEP_STATE_WAITING {
			// The hub takes the lease back while a person decides.
			return nil, fmt.Errorf("step %s waits for a person: %w", step.GetId(), ErrLeaseLost)
		}
		asked := r.cfg.Now()
		err := r.hub.do(ctx, "execute a step", func(ctx context.Context) error {
			res, err := r.hub.hub.ExecuteStep(ctx, connect.NewRequest(&deckhandv1.ExecuteStepRequest{
				Lease: r.hub.lease, StepId: step.GetId(),
			}))
			if err == nil {
				step = res.Msg.GetStep()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		// The hub holds the call for 20 s. An answer that comes at once and
		// says "not yet" must not become a busy loop.
		if final(step.GetState()) || r.cfg.Now().Sub(asked) > holdsAtLeast {
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
		deckhandv1.StepState_STEP_STATE_FAILED, deckhandv1.StepState_STEP_STATE_UNKNOWN,
		deckhandv1.StepState_STEP_STATE_SKIPPED, deckhandv1.StepState_STEP_STATE_CANCELLED:
		return true
	default:
		return false
	}
}

// completed answers the summary when the turn's complete_task was recorded.
func (r *run) completed(turn *deckhandv1.Turn) (string, bool) {
	for i, call := range model.Calls(turn) {
		if call.GetName() != toolComplete ||
			r.steps[callKey{turn.GetTurn(), int32(i)}].GetState() != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
			continue
		}
		return completionSummary(call.GetArgumentsJson()), true
	}
	return "", false
}
