package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/policy/corpus"
)

// policyDecision measures the decisions of the default policy about the scripts of
// the corpus, with the look for what is dangerous; its peer is the shell parser
// alone on the same scripts, in turn. p50 of ten passes, in microseconds for a script.
// Besides, one decision with 1 000 rules, on a command of a few words and on a
// script of 50 commands.
func policyDecision(context.Context) (result, error) {
	ours, peer, n, err := corpusDecision()
	if err != nil {
		return nil, err
	}
	out, err := ruledDecision()
	if err != nil {
		return nil, err
	}
	out["unit"], out["ours"], out["peer"], out["peer_name"], out["ratio"], out["n"] = "µs", ours, peer, "mvdan.cc/sh parser", ours/peer, n
	return out, nil
}

// corpusDecision returns how long a script of the corpus takes to decide, and to
// parse.
func corpusDecision() (ours, peer float64, n int, err error) {
	cases, err := corpus.Own()
	if err != nil {
		return 0, 0, 0, err
	}
	var scripts []string
	for _, c := range cases {
		if c.Script != "" {
			scripts = append(scripts, c.Script)
		}
	}
	set := policy.Default()
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	// A round is several passes: of one alone it is by chance whether the garbage
	// collector runs in it.
	const rounds, passes = 15, 10
	decided, parsed := make([]time.Duration, rounds), make([]time.Duration, rounds)
	for i := range rounds {
		began := time.Now()
		for range passes {
			for _, script := range scripts {
				set.Decide(policy.Call{Tool: "shell_exec", Category: "moderate", Agent: "agent", At: began, Arguments: map[string]any{"command": script}})
			}
		}
		decided[i], began = time.Since(began), time.Now()
		for range passes {
			for _, script := range scripts {
				_, _ = parser.Parse(strings.NewReader(script), "") // some of them are no shell
			}
		}
		parsed[i] = time.Since(began)
	}
	slices.Sort(decided)
	slices.Sort(parsed)
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(passes*len(scripts)) }
	return each(decided[rounds/2]), each(parsed[rounds/2]), rounds * passes * len(scripts), nil
}

// ruledDecision measures one decision with 1 000 rules, in microseconds.
func ruledDecision() (result, error) {
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
	return result{"command_with_rules_us": one, "script_us": long, "script_with_rules_us": measure(rules, script.String(), n/4), "rules": 1000, "commands": 50}, nil
}
