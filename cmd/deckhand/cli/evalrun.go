package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/eval"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func (a *app) evalRunCommand() *cobra.Command {
	var only []string
	var least float64
	runner := &eval.Runner{}
	cmd := &cobra.Command{
		Use: "run [FOLDER]", Short: "Run scenarios and report how well the agent did",
		Long: `Runs each scenario of a folder on the hub: its own agent, its files, its goal. Then
it looks at the workspace with the scenario's checks; what the agent says counts
for nothing. Without FOLDER it takes the scenarios of this release, and without
--provider each scenario's script plays the model.

The exit code is 1 when fewer scenarios pass than --least says.`,
		Example: `deckhand eval run
deckhand eval run --only rename-function,triage-log --least 1
deckhand eval run scenarios/ --provider anthropic --model claude-sonnet-5-5`,
		Args: takes("[FOLDER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (runner.Provider == "") != (runner.Model == "") {
				return usage(cmd, "--provider and --model go together")
			}
			if least < 0 || least > 1 {
				return usage(cmd, "--least is %v, give a share from 0 to 1", least)
			}
			folder := eval.Starter()
			if len(args) > 0 {
				folder = os.DirFS(args[0])
			}
			scenarios, err := eval.Load(folder)
			if err != nil {
				return err
			}
			for _, name := range only {
				if !slices.ContainsFunc(scenarios, func(s eval.Scenario) bool { return s.Name == name }) {
					return usage(cmd, "--only names %q, and there is no such scenario", name)
				}
			}
			scenarios = slices.DeleteFunc(scenarios, func(s eval.Scenario) bool { return len(only) > 0 && !slices.Contains(only, s.Name) })
			if runner.Client, err = a.connect(); err != nil {
				return err
			}
			results, err := runner.Run(cmd.Context(), scenarios)
			if err != nil {
				return err
			}
			if err := a.evalReport(results); err != nil {
				return err
			}
			passed := 0
			for _, r := range results {
				if r.Passed {
					passed++
				}
			}
			if float64(passed) < least*float64(len(results)) {
				return failed(exitFailed, fault.New(fault.Precondition, "%d of %d scenarios passed, and --least is %v", passed, len(results), least).
					WithFix("see why: deckhand task watch TASK"))
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these scenarios, by name")
	cmd.Flags().StringVar(&runner.Provider, "provider", "", "model family to run with, in place of the scripts")
	cmd.Flags().StringVar(&runner.Model, "model", "", "model to run with")
	cmd.Flags().StringVar(&runner.Prefix, "prefix", "eval", "how the scenarios' agents are named, PREFIX-SCENARIO; their workspaces are cleared")
	cmd.Flags().IntVar(&runner.Parallel, "parallel", 4, "how many scenarios run side by side")
	cmd.Flags().DurationVar(&runner.Timeout, "timeout", 15*time.Minute, "how long one scenario may take")
	cmd.Flags().Float64Var(&least, "least", 0.85, "share of the scenarios that must pass")
	return cmd
}

func (a *app) evalHistoryCommand() *cobra.Command {
	var agent string
	var limit int
	cmd := &cobra.Command{
		Use: "history", Short: "Draw the same report from tasks that have ended",
		Long: `Reports on the newest tasks that have ended, scripted ones included. Nobody
checked their workspaces: a task counts as completed when it succeeded.`,
		Example: "deckhand eval history --agent log-triage --limit 200",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage(cmd, "--limit is %d, give a positive number", limit)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			results, err := (&eval.Runner{Client: client}).History(cmd.Context(), agent, limit)
			if err != nil {
				return err
			}
			return a.evalReport(results)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only tasks of this agent")
	cmd.Flags().IntVar(&limit, "limit", 100, "the newest so many")
	return cmd
}

func (a *app) evalStarterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "starter FOLDER", Short: "Write the scenarios of this release into a new folder, to begin one's own from",
		Example: "deckhand eval starter scenarios",
		Args:    takes("FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.Mkdir(args[0], 0o755); errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Exists, "%s is there already", args[0]).WithFix("name a folder that is not there")
			} else if err != nil {
				return unreadable(args[0], err)
			}
			names, err := fs.Glob(eval.Starter(), "*.yaml")
			if err != nil {
				return fmt.Errorf("list scenarios: %w", err)
			}
			for _, name := range names {
				data, err := fs.ReadFile(eval.Starter(), name)
				if err != nil {
					return fmt.Errorf("read scenario %s: %w", name, err)
				}
				if err := os.WriteFile(filepath.Join(args[0], name), data, 0o644); err != nil { //nolint:gosec // they are to be read
					return unreadable(name, err)
				}
			}
			a.notef("wrote %d scenarios; run them: deckhand eval run %s", len(names), args[0])
			return nil
		},
	}
}

// evalReport prints results and what they sum up to: two tables for people, one
// document for programs.
func (a *app) evalReport(results []eval.Result) error {
	measures := eval.Report(results)
	rows, err := structs(results)
	if err != nil {
		return err
	}
	sums, err := structs(measures)
	if err != nil {
		return err
	}
	if a.format.ForPeople() {
		if err := output.List(a.printer(), resultNoun(), rows); err != nil {
			return err
		}
		fmt.Fprintln(a.out)
		return output.List(a.printer(), measureNoun(), sums)
	}
	document := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for key, list := range map[string][]*structpb.Struct{"scenarios": rows, "report": sums} {
		values := &structpb.ListValue{}
		for _, s := range list {
			values.Values = append(values.Values, structpb.NewStructValue(s))
		}
		document.Fields[key] = structpb.NewListValue(values)
	}
	return output.One(a.printer(), resultNoun(), document)
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
