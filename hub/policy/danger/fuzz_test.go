package danger_test

import (
	"testing"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// FuzzRecognise holds that no script has the recogniser panic or not come back,
// and that the same script is judged the same twice.
func FuzzRecognise(f *testing.F) {
	for _, file := range []string{"evasions_a.txt", "evasions_b.txt", "harmless_a.txt", "harmless_b.txt"} {
		for _, e := range load(f, file) {
			f.Add(e.script)
		}
	}
	f.Fuzz(func(t *testing.T, script string) {
		began := time.Now()
		one := danger.In(shell.Read(script, shell.Options{}))
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %s", took)
		}
		if two := danger.In(shell.Read(script, shell.Options{})); len(one) != len(two) {
			t.Errorf("first %v, then %v", one, two)
		}
		for _, language := range []string{"python", "perl", "javascript", "awk"} {
			danger.Code(language, script, 1)
		}
	})
}
