package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

const (
	contextTurns = 500
	contextLimit = 80_000
	// Turn 3 sees two facts; one is pinned in turn 4, the other only read. Both
	// are wanted in turn 400.
	factTurn, wantTurn = 3, 400
	pinned, read       = "PIN-6f1c09d2", "KEY-93ab77e1"
)

// contextHolds runs 500 turns and says how large the prompt ever became, and
// whether two facts of turn 3 are to be had in turn 400: one that the agent
// pinned stands in its prompt, one that no summary kept is found by
// context_search.
func contextHolds(ctx context.Context) (_ result, err error) {
	var mu sync.Mutex
	most, summaries := 0, 0
	kept, found := false, false
	m := newTurnModel(func(a asked) anthropictest.Block {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, a.tokens)
		switch a.turn {
		case 0:
			summaries++
			return anthropictest.Block{Text: "Parts were made, one after the other, and all went well."}
		case factTurn:
			return call(a, "shell_exec", map[string]any{"command": "cat facts"})
		case factTurn + 1:
			return call(a, "pin_fact", map[string]any{"key": "pin", "fact": pinned})
		case wantTurn:
			kept = strings.Contains(a.text, pinned) && !strings.Contains(a.text, read)
			return call(a, "context_search", map[string]any{"query": "licence key"})
		case wantTurn + 1:
			found = strings.Contains(a.text, read)
		case contextTurns:
			return call(a, "complete_task", map[string]any{"summary": "done"})
		}
		return call(a, "shell_exec", map[string]any{"command": fmt.Sprintf("make part-%d", a.turn)})
	})
	defer m.Close()
	m.reads = true
	s, err := longRuns(ctx, m, func(command string) string {
		if strings.Contains(command, "cat facts") {
			return "the pin is " + pinned + "\nthe licence key is " + read + "\n"
		}
		return command + " makes:\n" + strings.Repeat("compiled one more file of "+command+" without a warning\n", 40)
	})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.worker(ctx, 1); err != nil {
		return nil, err
	}
	id, err := s.submitRun(ctx, "context")
	if err != nil {
		return nil, err
	}
	if err := s.ends(ctx, id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED); err != nil {
		return nil, err
	}
	var errs []error
	if most > contextLimit {
		errs = append(errs, fmt.Errorf("a prompt had %d tokens, over the limit of %d", most, contextLimit))
	}
	if !kept || !found {
		errs = append(errs, fmt.Errorf("the facts of turn %d are not to be had in turn %d: pinned %t, found %t", factTurn, wantTurn, kept, found))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return result{"unit": "tokens of the largest prompt", "ours": most, "limit": contextLimit, "summaries": summaries, "holds": true, "n": contextTurns}, nil
}
