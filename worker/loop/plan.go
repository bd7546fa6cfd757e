package loop

import (
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/plantree"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// plan is the agent's own, as its last update_plan call set it: a tree of items
// with dependencies.
type plan struct {
	Items           []plantree.Item `json:"items"`
	SuccessCriteria []string        `json:"success_criteria,omitempty"`
	Risks           []string        `json:"risks,omitempty"`
	// Next is the action that the agent has chosen, its confidence in it, and
	// the alternatives that it considered.
	Next *struct {
		Action      string   `json:"action"`
		Confidence  *float64 `json:"confidence,omitempty"`
		Alternative string   `json:"alternative,omitempty"`
	} `json:"next,omitempty"`
	// Estimate is what is left to do.
	Estimate *struct {
		Iterations *int     `json:"iterations,omitempty"`
		Minutes    *float64 `json:"minutes,omitempty"`
	} `json:"estimate,omitempty"`
}

// newPlan reads the arguments of a call and checks that they are a tree with
// dependencies that can be met.
func newPlan(arguments map[string]any) (*plan, error) {
	data, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("it cannot be encoded: %w", err)
	}
	var p plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if err := plantree.Check(p.Items); err != nil {
		return nil, err
	}
	return &p, nil
}

// next is the title of the item that the agent is working on, or the next one.
func (p *plan) next() string {
	for _, status := range []string{"in_progress", "pending"} {
		for _, item := range p.Items {
			if item.Status == status {
				return item.Title
			}
		}
	}
	return ""
}

func (p *plan) payload(turn int32) map[string]any {
	out := map[string]any{
		"turn": turn, "items": p.Items, "success_criteria": p.SuccessCriteria, "risks": p.Risks, "progress": plantree.Progress(p.Items),
	}
	if p.Next != nil {
		out["next"] = p.Next
	}
	if p.Estimate != nil {
		out["estimate"] = p.Estimate
	}
	return out
}

// planUpdated returns the plan that a turn set, or nil.
func (r *run) planUpdated(turn *deckhandv1.Turn) *plan {
	calls := model.Calls(turn)
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].GetName() != toolPlan ||
			r.steps[callKey{turn.GetTurn(), int32(i)}].GetState() != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
			continue
		}
		var arguments map[string]any
		if json.Unmarshal([]byte(calls[i].GetArgumentsJson()), &arguments) != nil {
			continue
		}
		if p, err := newPlan(arguments); err == nil {
			return p
		}
	}
	return nil
}

// plan returns the plan in force, and the turn that set it; nil for none. What
// became of the calls of an unfinished turn is looked at each time.
func (r *run) plan() (*plan, int32) {
	turns := int32(len(r.turns)) //nolint:gosec // at most 1 000
	for n := turns; n > r.planned.upTo; n-- {
		if p := r.planUpdated(r.turns[n-1]); p != nil {
			r.planned.plan, r.planned.turn = p, r.turns[n-1].GetTurn()
			break
		}
	}
	r.planned.upTo = min(turns, r.state.Iteration)
	return r.planned.plan, r.planned.turn
}

// planState is the plan in force and the turn that set it, of the turns up to
// one.
type planState struct {
	plan *plan
	turn int32
	upTo int32
}

// planUpTo returns the plan in force after a turn.
func (r *run) planUpTo(upTo int32) (*plan, int32) {
	for i := int(upTo) - 1; i >= 0; i-- {
		if p := r.planUpdated(r.turns[i]); p != nil {
			return p, r.turns[i].GetTurn()
		}
	}
	return nil, 0
}

// planPhase describes, for the phase's event, how the plan changed since the
// last iteration: there is none, it was kept, or the last turn revised it.
func (r *run) planPhase() map[string]any {
	p, turn := r.plan()
	switch {
	case p == nil:
		return map[string]any{"plan": "none"}
	case int(turn) == len(r.turns):
		return map[string]any{"plan": "revised", "items": len(p.Items), "next": p.next()}
	default:
		return map[string]any{"plan": "kept", "items": len(p.Items), "next": p.next()}
	}
}
