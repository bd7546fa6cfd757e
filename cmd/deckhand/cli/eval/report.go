package eval

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/version"
)

// Document is a report as programs read it, and as compare does.
type Document struct {
	Run       Run       `json:"run"`
	Scenarios []Result  `json:"scenarios"`
	Report    []Measure `json:"report"`
}

// Run says what was measured.
type Run struct {
	// Provider and Model played the agents; "script" and empty for the scenarios' scripts.
	// Both are empty for a report that is drawn from history.
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Version is the release of the command that measured.
	Version string    `json:"version"`
	At      time.Time `json:"at"`
}

// printReport prints results and what they sum up to: two tables for people, one
// Document for programs.
func printReport(e *env.Env, run Run, results []Result) error {
	run.Version, run.At = version.Version, time.Now().UTC().Truncate(time.Second)
	document := Document{run, results, Report(results)}
	if !e.Format.ForPeople() {
		whole, err := structs([]Document{document})
		if err != nil {
			return err
		}
		return output.One(e.Printer(), resultNoun(), whole[0])
	}
	rows, err := structs(results)
	if err != nil {
		return err
	}
	sums, err := structs(document.Report)
	if err != nil {
		return err
	}
	if err := output.List(e.Printer(), resultNoun(), rows); err != nil {
		return err
	}
	fmt.Fprintln(e.Out)
	return output.List(e.Printer(), measureNoun(), sums)
}

// structs returns what JSON makes of each item.
func structs[T any](items []T) ([]*structpb.Struct, error) {
	out := make([]*structpb.Struct, len(items))
	for i, item := range items {
		data, err := json.Marshal(item)
		if err == nil {
			out[i] = &structpb.Struct{}
			err = out[i].UnmarshalJSON(data)
		}
		if err != nil {
			return nil, fmt.Errorf("show a result: %w", err)
		}
	}
	return out, nil
}

// field makes a function that shows a field of a row.
func field(key string, show func(*structpb.Value) string) func(*structpb.Struct) string {
	return func(s *structpb.Struct) string { return show(s.GetFields()[key]) }
}

func word(v *structpb.Value) string { return termsafe.Line(v.GetStringValue()) }

// number shows a number, and nothing for one that is not known.
func number(v *structpb.Value) string {
	n, ok := v.GetKind().(*structpb.Value_NumberValue)
	if !ok {
		return ""
	}
	return fmt.Sprint(n.NumberValue)
}

// thousands shows how many thousands there are, with one digit after the point.
func thousands(v *structpb.Value) string {
	if number(v) == "" {
		return ""
	}
	return fmt.Sprintf("%.1fk", v.GetNumberValue()/1000)
}

func dollars(v *structpb.Value) string {
	if number(v) == "" {
		return ""
	}
	return fmt.Sprintf("%.4f", v.GetNumberValue()/1e6)
}

func yes(v *structpb.Value) string {
	b, ok := v.GetKind().(*structpb.Value_BoolValue)
	switch {
	case !ok:
		return ""
	case b.BoolValue:
		return "yes"
	}
	return "no"
}

// passedStyle colours a column by whether a row passed.
func passedStyle(key string) func(*structpb.Struct) lipgloss.Style {
	return func(s *structpb.Struct) lipgloss.Style {
		if s.GetFields()[key].GetBoolValue() {
			return lipgloss.NewStyle().Foreground(lipgloss.Green)
		}
		return lipgloss.NewStyle().Foreground(lipgloss.Red)
	}
}

func resultNoun() output.Noun[*structpb.Struct] {
	return output.Noun[*structpb.Struct]{
		Name: field("scenario", word),
		Columns: []output.Column[*structpb.Struct]{
			{Header: "scenario", Value: field("scenario", word)},
			{Header: "passed", Value: field("passed", yes), Style: passedStyle("passed")},
			{Header: "state", Value: field("state", word)},
			{Header: "turns", Value: field("iterations", number)},
			{Header: "calls", Value: field("calls", number)},
			{Header: "input", Value: field("input_tokens", thousands)},
			{Header: "cached", Value: func(s *structpb.Struct) string {
				all := s.GetFields()["input_tokens"].GetNumberValue()
				if all == 0 {
					return ""
				}
				return fmt.Sprintf("%.0f%%", 100*s.GetFields()["cached_tokens"].GetNumberValue()/all)
			}},
			{Header: "output", Value: field("output_tokens", thousands)},
			{Header: "USD", Value: field("cost_micros", dollars)},
			{Header: "seconds", Wide: true, Value: field("seconds", number)},
			{Header: "task", Value: field("task_id", word)},
			{Header: "what is wrong", Value: func(s *structpb.Struct) string {
				var wrong []string
				for _, key := range []string{"failed_checks", "incidents"} {
					for _, v := range s.GetFields()[key].GetListValue().GetValues() {
						wrong = append(wrong, v.GetStringValue())
					}
				}
				if p := s.GetFields()["problem"].GetStringValue(); p != "" {
					wrong = append(wrong, p)
				}
				return termsafe.Line(strings.Join(wrong, "; "))
			}, Max: 80},
		},
	}
}

// figure shows the value of a measure.
func figure(v *structpb.Value) string {
	if n, ok := v.GetKind().(*structpb.Value_NumberValue); ok {
		if n.NumberValue >= 1000 {
			return fmt.Sprintf("%.0f", n.NumberValue)
		}
		return fmt.Sprintf("%.3g", n.NumberValue)
	}
	return "nothing to measure"
}

func measureNoun() output.Noun[*structpb.Struct] {
	return output.Noun[*structpb.Struct]{
		Name: field("name", word),
		Columns: []output.Column[*structpb.Struct]{
			{Header: "measure", Value: field("name", word)},
			{Header: "value", Value: field("value", figure)},
			{Header: "of", Value: field("of", number)},
			{Header: "target", Value: field("target", word)},
		},
	}
}
