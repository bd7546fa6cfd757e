package step

import (
	"context"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxReasoning is how much of its turn's text a step keeps, in bytes.
const maxReasoning = 8 << 10

// ProposeTurn decides calls of a turn in the transaction that stores the turn and has
// locked the task's row. indices count the turn's calls from 0. A call that was decided
// before is returned in its current state. Unless an earlier call has yet to end, a
// granted call that only touches the conversation runs here, and one that the node
// executes is started: it is the next one that the worker executes.
func (s *Steps) ProposeTurn(ctx context.Context, tx *event.Tx, t db.Task, turn *deckhandv1.Turn, indices []int32) ([]db.Step, error) {
	calls, said := parts(turn)
	steps := make([]db.Step, 0, len(indices))
	// Nothing runs if a pause before the next call was requested.
	ended := t.PauseNext == ""
	for _, i := range indices {
		if int(i) >= len(calls) {
			return nil, fault.New(fault.Invalid, "propose names call %d, and turn %d has %d", i, turn.GetTurn(), len(calls)).
				WithFix("count the turn's calls from 0")
		}
		p := Proposal{
			Turn: turn.GetTurn(), CallIndex: i, CallID: calls[i].GetId(), Tool: calls[i].GetName(),
			ArgumentsJSON: calls[i].GetArgumentsJson(), Reasoning: said,
		}
		crashpoint.At(crashpoint.BeforeIntent, t.ID, "")
		step, err := s.propose(ctx, tx, t, p, ended)
		if err != nil {
			return nil, err
		}
		// Stored earlier, when it could not run yet.
		if ended && State(step.State) == Granted && s.place(step) == deckhandv1.ToolPlace_TOOL_PLACE_WORKER {
			if step, err = s.startIn(ctx, tx, t, step); err != nil {
				return nil, err
			}
		}
		ended = ended && State(step.State).Ended()
		tx.AfterCommit(func() { crashpoint.At(crashpoint.AfterIntent, t.ID, step.ID) })
		steps = append(steps, step)
	}
	return steps, pauseNext(ctx, tx, t, steps...)
}

// parts returns a turn's calls and the text before them, cut to maxReasoning.
func parts(turn *deckhandv1.Turn) (calls []*deckhandv1.Block_ToolCall, said string) {
	var texts []string
	for _, block := range turn.GetBlocks() {
		if call := block.GetToolCall(); call != nil {
			calls = append(calls, call)
		}
		if text := block.GetText().GetText(); text != "" {
			texts = append(texts, text)
		}
	}
	said = strings.Join(texts, "\n")
	return calls, textcut.Bytes(said, maxReasoning, "")
}
