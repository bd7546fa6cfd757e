package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/worker/hubtest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// A provider that has a cache and reads nothing from it is reported once, with the likely
// reason; and the persona's hour is asked of it.
func TestACacheThatIsNotUsedIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage anthropictest.Usage
		says  string // "" for no event
	}{
		"a short prompt":   {anthropictest.Usage{Input: 500}, "the prompt has 500 tokens, and claude-sonnet-5-5 caches prompts from 1024 on"},
		"a long prompt":    {anthropictest.Usage{Input: 5000}, "does not keep the prompt or does not say so"},
		"one that is read": {anthropictest.Usage{Input: 500, CacheRead: 4500}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modeltest.New(t, func(r modeltest.Request) modeltest.Answer {
				block := anthropictest.Block{Tool: "shell_exec", ID: fmt.Sprintf("call_%d", r.Number), Input: fmt.Sprintf(`{"command": "make part-%d"}`, r.Number)}
				if r.Number > 8 {
					block = anthropictest.Block{Tool: "complete_task", ID: "last", Input: `{"summary":"done"}`}
				}
				return modeltest.Answer{Answer: anthropictest.Answer{Blocks: []anthropictest.Block{block}, Usage: c.usage}}
			})
			b := newBench(t, hubtest.Config{})
			b.p.Provider, b.p.CacheTTL = "anthropic", time.Hour
			_, err := b.attempt(t.Context(), modeltest.NewModel(t, modeltest.Messages, srv.URL, 0))
			require.NoError(t, err)
			missed := events(b.hub.Task(taskID), "cache_missed")
			if c.says == "" {
				require.Empty(t, missed)
			} else {
				require.Len(t, missed, 1)
				require.Contains(t, missed[0]["reason"], c.says)
				require.EqualValues(t, 6, missed[0]["turns"])
			}
			last := srv.Requests()[8].Text
			require.Equal(t, strings.Count(last, `"type":"ephemeral"`), strings.Count(last, `"ttl":"1h"`))
			require.Equal(t, 3, strings.Count(last, `"ttl":"1h"`))
		})
	}
}
