package corpus_test

import (
	"testing"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/policy/corpus"
)

// BenchmarkDecide decides each script of the corpus once.
func BenchmarkDecide(b *testing.B) {
	cases, err := corpus.Own()
	if err != nil {
		b.Fatal(err)
	}
	set := policy.Default()
	for b.Loop() {
		for _, c := range cases {
			if c.Script != "" {
				set.Decide(policy.Call{Tool: "shell_exec", Category: "moderate", Agent: "agent", At: time.Unix(1_700_000_000, 0), Arguments: map[string]any{"command": c.Script}})
			}
		}
	}
}
