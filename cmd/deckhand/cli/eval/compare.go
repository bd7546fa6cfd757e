package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func compareCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "compare A B", Short: "Compare two reports: two models, or two versions",
		Long: `A and B are files that "deckhand eval run -o json" or "eval history -o json" wrote.
Each scenario that one of them has is a row, with what it came to in A and in B.`,
		Example: `deckhand eval run --provider anthropic --model claude-sonnet-5-5 -o json > a.json
deckhand eval run --provider openai --model gpt-5 -o json > b.json
deckhand eval compare a.json b.json`,
		Args: env.Args("A", "B"),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := readDocument(args[0])
			if err != nil {
				return err
			}
			b, err := readDocument(args[1])
			if err != nil {
				return err
			}
			return printComparison(e, a, b)
		},
	}
}

// maxDocument is the size of a report that is read, in bytes.
const maxDocument = 64 << 20

func readDocument(path string) (Document, error) {
	var d Document
	info, err := os.Stat(path)
	if err != nil {
		return d, env.Unreadable(path, err)
	}
	if info.Size() > maxDocument {
		return d, fault.New(fault.Invalid, "%s has %d bytes: at most %d are read", path, info.Size(), maxDocument).WithFix("name a report")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return d, env.Unreadable(path, err)
	}
	if err := json.Unmarshal(data, &d); err != nil || d.Report == nil {
		return d, fault.New(fault.Invalid, "%s is no report of an evaluation", path).WithCause(err).
			WithFix("write one: deckhand eval run -o json > %s", path)
	}
	return d, nil
}

// Pair is a scenario or a measure in two reports; nil where one does not have it.
type Pair[T any] struct {
	Name string `json:"name"`
	A    *T     `json:"a"`
	B    *T     `json:"b"`
}

// Compare puts two reports side by side, in the order of the first, then of the second.
func Compare(a, b Document) (scenarios []Pair[Result], measures []Pair[float64]) {
	at := map[string]int{}
	place := func(name string) *Pair[Result] {
		i, ok := at[name]
		if !ok {
			i = len(scenarios)
			at[name], scenarios = i, append(scenarios, Pair[Result]{Name: name})
		}
		return &scenarios[i]
	}
	for _, r := range a.Scenarios {
		place(r.Scenario).A = &r
	}
	for _, r := range b.Scenarios {
		place(r.Scenario).B = &r
	}
	for _, m := range a.Report {
		measures = append(measures, Pair[float64]{Name: m.Name, A: m.Value})
	}
	for _, m := range b.Report {
		found := false
		for i := range measures {
			if measures[i].Name == m.Name {
				measures[i].B, found = m.Value, true
			}
		}
		if !found {
			measures = append(measures, Pair[float64]{Name: m.Name, B: m.Value})
		}
	}
	return scenarios, measures
}

// name says what a report measured.
func (r Run) name() string {
	what := strings.Trim(r.Provider+"/"+r.Model, "/")
	if what == "" {
		what = "history"
	}
	return fmt.Sprintf("%s, version %s, %s", what, r.Version, r.At.Format("2006-01-02 15:04 MST"))
}

func printComparison(e *env.Env, a, b Document) error {
	scenarios, measures := Compare(a, b)
	if !e.Format.ForPeople() {
		whole, err := structs([]map[string]any{{"a": a.Run, "b": b.Run, "scenarios": scenarios, "report": measures}})
		if err != nil {
			return err
		}
		return output.One(e.Printer(), resultNoun(), whole[0])
	}
	rows, err := structs(scenarios)
	if err != nil {
		return err
	}
	sums, err := structs(measures)
	if err != nil {
		return err
	}
	e.Notef("A: %s\nB: %s", a.Run.name(), b.Run.name())
	if err := output.List(e.Printer(), pairNoun(), rows); err != nil {
		return err
	}
	fmt.Fprintln(e.Out)
	return output.List(e.Printer(), output.Noun[*structpb.Struct]{
		Name: field("name", word),
		Columns: []output.Column[*structpb.Struct]{
			{Header: "measure", Value: field("name", word)},
			{Header: "A", Value: field("a", figure)},
			{Header: "B", Value: field("b", figure)},
		},
	}, sums)
}

// pairNoun shows each figure of a scenario as "of A / of B".
func pairNoun() output.Noun[*structpb.Struct] {
	both := func(key string, show func(*structpb.Value) string) func(*structpb.Struct) string {
		return func(s *structpb.Struct) string {
			of := func(side string) string {
				if shown := show(s.GetFields()[side].GetStructValue().GetFields()[key]); shown != "" {
					return shown
				}
				return "-"
			}
			return of("a") + " / " + of("b")
		}
	}
	return output.Noun[*structpb.Struct]{
		Name: field("name", word),
		Columns: []output.Column[*structpb.Struct]{
			{Header: "scenario", Value: field("name", word)},
			{Header: "passed", Value: both("passed", yes)},
			{Header: "turns", Value: both("iterations", number)},
			{Header: "calls", Value: both("calls", number)},
			{Header: "input", Value: both("input_tokens", thousands)},
			{Header: "cached", Value: both("cached_tokens", thousands)},
			{Header: "output", Value: both("output_tokens", thousands)},
			{Header: "USD", Value: both("cost_micros", dollars)},
		},
	}
}
