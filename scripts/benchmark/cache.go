package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// cacheTurns is how long the run is.
const cacheTurns = 40

// promptCache measures the share of a task's input tokens that the provider reads from its
// prompt cache, with a provider that caches as Anthropic says it does. The peer is the
// share that was possible: of each request, what an earlier one began with too.
func promptCache(ctx context.Context) (_ result, err error) {
	var mu sync.Mutex
	var cache modeltest.Cache
	var read, possible, all int64
	var broken error
	m := newTurnModel(func(a asked) anthropictest.Block {
		if a.turn > cacheTurns-1 {
			return call(a, "complete_task", map[string]any{"summary": "done"})
		}
		return call(a, "shell_exec", map[string]any{"command": fmt.Sprintf("make part-%d", a.turn)})
	})
	defer m.Close()
	m.usage = func(body []byte) anthropictest.Usage {
		mu.Lock()
		defer mu.Unlock()
		prompt, err := modeltest.PromptOf(modeltest.Messages, body)
		if err != nil {
			broken = err
			return anthropictest.Usage{}
		}
		use := cache.Ask(prompt)
		read, possible, all = read+use.Read, possible+use.Possible, all+use.Read+use.Written+use.Rest
		return anthropictest.Usage{Input: use.Rest, CacheRead: use.Read, CacheWrite: use.Written, Output: 20}
	}
	s, err := longRuns(ctx, m, func(command string) string {
		return command + " makes:\n" + strings.Repeat("compiled one more file of "+command+" without a warning\n", 20)
	})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.worker(ctx, 1); err != nil {
		return nil, err
	}
	id, err := s.submitRun(ctx, "cache")
	if err != nil {
		return nil, err
	}
	if err := s.ends(ctx, id, deckhandv1.TaskState_TASK_STATE_SUCCEEDED); err != nil {
		return nil, err
	}
	if broken != nil {
		return nil, broken
	}
	ours, peer := float64(read)/float64(all), float64(possible)/float64(all)
	return result{
		"unit": "share of the input tokens", "ours": ours, "peer": peer, "peer_name": "possible", "ratio": ours / peer,
		"input_tokens": all, "read_tokens": read, "n": cacheTurns,
	}, nil
}
