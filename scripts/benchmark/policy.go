package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy"
)

// policyDecision measures one decision with 1 000 rules, on a command of a few
// words, and on a script of 50 commands; both with the look for what is
// dangerous. p50, in microseconds.
func policyDecision(context.Context) (result, error) {
	var text, script strings.Builder
	text.WriteString("rules:\n")
	for i := range 1000 {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&text, "  - {effect: ask, command: tool%d sub}\n", i)
		case 1:
			fmt.Fprintf(&text, "  - {effect: deny, path: \"/srv/%d/**\"}\n", i)
		case 2:
			fmt.Fprintf(&text, "  - {effect: allow, tool: file_write, path: \"/workspace/%d/*\"}\n", i)
		default:
			fmt.Fprintf(&text, "  - {effect: ask, agent: agent-%d, command: git push}\n", i)
		}
	}
	for i := range 25 {
		fmt.Fprintf(&script, "grep -rn \"word %d\" src | sort -u > out/%d.txt\n", i, i)
	}
	p, err := policy.Parse("policy.yaml", []byte(text.String()))
	if err != nil {
		return nil, err
	}
	rules := policy.Set{{Name: "organisation 1", Policy: p}}
	none := policy.Set{}
	measure := func(set policy.Set, command string, n int) float64 {
		call := policy.Call{Tool: "shell_exec", Category: "moderate", Agent: "agent", At: time.Now(), Arguments: map[string]any{"command": command}}
		took := make([]time.Duration, n)
		for i := range took {
			began := time.Now()
			set.Decide(call)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return float64(took[n/2].Nanoseconds()) / 1000
	}
	measure(rules, "git status", 200) // warm
	const n = 2000
	one, long := measure(rules, "go test ./hub/policy -run Name", n), measure(none, script.String(), n)
	return result{"unit": "µs", "ours": one, "script_us": long, "script_with_rules_us": measure(rules, script.String(), n/4), "rules": 1000, "commands": 50, "n": n}, nil
}
