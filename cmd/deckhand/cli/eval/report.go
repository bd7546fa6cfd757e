package eval

import (
	"encoding/json"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
)

// printReport prints results and what they sum up to: two tables for people, one
// document for programs.
func printReport(e *env.Env, results []Result) error {
	measures := Report(results)
	rows, err := structs(results)
	if err != nil {
		return err
	}
	sums, err := structs(measures)
	if err != nil {
		return err
	}
	if e.Format.ForPeople() {
		if err := output.List(e.Printer(), resultNoun(), rows); err != nil {
			return err
		}
		fmt.Fprintln(e.Out)
		return output.List(e.Printer(), measureNoun(), sums)
	}
	document := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for key, list := range map[string][]*structpb.Struct{"scenarios": rows, "report": sums} {
		values := &structpb.ListValue{}
		for _, s := range list {
			values.Values = append(values.Values, structpb.NewStructValue(s))
		}
		document.Fields[key] = structpb.NewListValue(values)
	}
	return output.One(e.Printer(), resultNoun(), document)
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

func resultNoun() output.Noun[*structpb.Struct] {
	word := func(key string) func(*structpb.Struct) string {
		return func(s *structpb.Struct) string { return termsafe.Line(s.GetFields()[key].GetStringValue()) }
	}
	number := func(key string) func(*structpb.Struct) string {
		return func(s *structpb.Struct) string { return fmt.Sprint(s.GetFields()[key].GetNumberValue()) }
	}
	return output.Noun[*structpb.Struct]{
		Name: word("scenario"),
		Columns: []output.Column[*structpb.Struct]{
			{Header: "scenario", Value: word("scenario")},
			{Header: "passed", Value: func(s *structpb.Struct) string {
				if s.GetFields()["passed"].GetBoolValue() {
					return "yes"
				}
				return "no"
			}, Style: func(s *structpb.Struct) lipgloss.Style {
				if s.GetFields()["passed"].GetBoolValue() {
					return lipgloss.NewStyle().Foreground(lipgloss.Green)
				}
				return lipgloss.NewStyle().Foreground(lipgloss.Red)
			}},
			{Header: "state", Value: word("state")},
			{Header: "iterations", Value: number("iterations")},
			{Header: "calls", Value: number("calls")},
			{Header: "task", Value: word("task_id")},
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

func measureNoun() output.Noun[*structpb.Struct] {
	name := func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() }
	return output.Noun[*structpb.Struct]{
		Name: name,
		Columns: []output.Column[*structpb.Struct]{
			{Header: "measure", Value: name},
			{Header: "value", Value: func(s *structpb.Struct) string {
				if v, ok := s.GetFields()["value"].GetKind().(*structpb.Value_NumberValue); ok {
					return fmt.Sprintf("%.3g", v.NumberValue)
				}
				return "nothing to measure"
			}},
			{Header: "of", Value: func(s *structpb.Struct) string { return fmt.Sprint(s.GetFields()["of"].GetNumberValue()) }},
			{Header: "target", Value: func(s *structpb.Struct) string { return s.GetFields()["target"].GetStringValue() }},
		},
	}
}
