package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// overheadTurns is how long the run is.
const overheadTurns = 1000

// loopOverhead measures what a turn costs beside its model and its command: the
// time from the end of a model's answer to the next request, with a command in
// between that ends at once, at several lengths of the history. The figure is
// the median of a turn with a history of 1,000, the peer one bare commit beside
// it. Turns that are summarised after are left out: they ask a model.
func loopOverhead(ctx context.Context) (_ result, err error) {
	var mu sync.Mutex
	var last time.Time
	gaps := make([]time.Duration, overheadTurns+2)
	m := newTurnModel(func(a asked) anthropictest.Block {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case a.turn == 0:
			last = time.Time{}
			return anthropictest.Block{Text: "All went well so far."}
		case a.turn > overheadTurns-1:
			return call(a, "complete_task", map[string]any{"summary": "done"})
		case !last.IsZero():
			gaps[a.turn] = a.at.Sub(last)
		}
		return call(a, "shell_exec", map[string]any{"command": fmt.Sprintf("make part-%d", a.turn)})
	})
	defer m.Close()
	m.answered = func(a asked, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		if last = at; a.turn == 0 {
			last = time.Time{}
		}
	}
	s, err := longRuns(ctx, m, func(command string) string { return command + ": 17 files are made, none is left\n" })
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.worker(ctx, 1); err != nil {
		return nil, err
	}
	peer, err := startBareCommit(ctx, s)
	if err != nil {
		return nil, err
	}
	defer peer.stop()
	id, err := s.submitRun(ctx, "overhead")
	if err != nil {
		return nil, err
	}
	if err := s.ends(ctx, id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED); err != nil {
		return nil, err
	}
	around := func(from, to int) float64 {
		var some []time.Duration
		for _, gap := range gaps[from:to] {
			if gap > 0 {
				some = append(some, gap)
			}
		}
		slices.Sort(some)
		return percentile(some, 50)
	}
	at10, at100, at1000 := around(5, 30), around(75, 125), around(900, overheadTurns)
	commit, err := peer.end()
	if err != nil {
		return nil, err
	}
	out := compared("ms", at1000, commit, bareCommitName, overheadTurns)
	out["at_10"], out["at_100"], out["at_1000"] = at10, at100, at1000
	return out, nil
}
