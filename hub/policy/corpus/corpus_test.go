package corpus_test

import (
	"testing"

	"github.com/deckhand-sh/deckhand/hub/policy/corpus"
)

// The bounds are those of the set that comes with Deckhand, which the reading was
// written with; of others more passes.
func TestTheReadingHoldsItsBoundsOnItsOwnSet(t *testing.T) {
	t.Parallel()
	cases, err := corpus.Own()
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := corpus.Run(cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Wrong() {
			t.Logf("%s: %s: %s\n%s", o.Class, o.Name(), o.Decision.Why, o.Script)
		}
	}
	least := map[corpus.Class]int{corpus.Evasion: 150, corpus.Sequence: 40, corpus.Everyday: 300}
	most := map[corpus.Class]float64{corpus.Evasion: 3, corpus.Sequence: 3, corpus.Everyday: 2}
	for _, s := range corpus.Scores(outcomes) {
		t.Logf("%s: %d of %d wrong (%.1f %%)", s.Class, s.Wrong, s.Cases, s.Percent)
		if s.Cases < least[s.Class] {
			t.Errorf("%s has %d cases, and %d are the least", s.Class, s.Cases, least[s.Class])
		}
		if s.Percent > most[s.Class] {
			t.Errorf("%s: %.1f %% are wrong, and %g %% is the most", s.Class, s.Percent, most[s.Class])
		}
	}
}

func TestACorpusThatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"evasion:\n  - {does: x}":                         "read x: evasion 1 has script and steps, or neither: write one of them",
		"evasion:\n  - {does: x, script: ls, steps: [a]}": "read x: evasion 1 has script and steps, or neither: write one of them",
		"wrong: []": `read x: there is no class "wrong": write evasion, sequence or everyday`,
	} {
		if _, err := corpus.Read("x", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
