package loopguard

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// Trace is a labelled run: what an agent called, by iteration.
type Trace struct {
	Name string `json:"name"`
	// Stuck is the label: a person would have stopped it.
	Stuck bool     `json:"stuck"`
	Turns [][]Call `json:"turns"`
}

//go:embed testdata/traces.jsonl
var labelled string

// Labelled returns the labelled set: runs of many kinds, half of them stuck. It
// is made by worker/loopguard/tracegen.
func Labelled() ([]Trace, error) {
	var out []Trace
	for n, line := range strings.Split(strings.TrimSpace(labelled), "\n") {
		var t Trace
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			return nil, fmt.Errorf("trace %d: %w", n+1, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// Score is how verdicts compare with labels.
type Score struct {
	TruePositive, FalsePositive, FalseNegative, TrueNegative int
	// Wrong are the traces that were judged otherwise than labelled.
	Wrong []string
}

// Precision is how many of those called stuck are.
func (s Score) Precision() float64 { return share(s.TruePositive, s.FalsePositive) }

// Recall is how many of those that are stuck are called so.
func (s Score) Recall() float64 { return share(s.TruePositive, s.FalseNegative) }

func share(hits, misses int) float64 {
	if hits+misses == 0 {
		return 1
	}
	return float64(hits) / float64(hits+misses)
}

// Judge runs every trace through a guard. A trace counts as stuck if the
// guard's verdict reaches least, Nudge or Stop.
func Judge(traces []Trace, least Verdict) Score {
	var s Score
	for _, t := range traces {
		var g Guard
		worst := GoOn
		for _, calls := range t.Turns {
			if worst = max(worst, g.Observe(calls).Verdict); worst == Stop {
				break
			}
		}
		called := worst >= least
		switch {
		case called && t.Stuck:
			s.TruePositive++
		case called:
			s.FalsePositive++
		case t.Stuck:
			s.FalseNegative++
		default:
			s.TrueNegative++
		}
		if called != t.Stuck {
			s.Wrong = append(s.Wrong, t.Name)
		}
	}
	return s
}
