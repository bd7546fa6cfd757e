package eval

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/worker/loopguard"
)

func guardrailsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "guardrails", Short: "Measure precision and recall of the guardrails on labelled runs",
		Long: `Runs the guard that finds agents which go round in circles over a labelled set of
runs, half of them stuck. "stop" is when a run is paused; "nudge" when the model
is told, which does no harm to a run that gets on.`,
		Example: "deckhand eval guardrails\ndeckhand eval guardrails -o json",
		Args:    env.Args(),
		RunE: func(*cobra.Command, []string) error {
			traces, err := loopguard.Labelled()
			if err != nil {
				return err
			}
			var rows []*structpb.Struct
			for _, verdict := range []struct {
				name  string
				least loopguard.Verdict
			}{{"stop", loopguard.Stop}, {"nudge", loopguard.Nudge}} {
				s := loopguard.Judge(traces, verdict.least)
				wrong := make([]any, len(s.Wrong))
				for i, name := range s.Wrong {
					wrong[i] = name
				}
				row, err := structpb.NewStruct(map[string]any{
					"verdict": verdict.name, "traces": len(traces), "precision": s.Precision(), "recall": s.Recall(), "wrong": wrong,
				})
				if err != nil {
					return fmt.Errorf("show a score: %w", err)
				}
				rows = append(rows, row)
			}
			return output.List(e.Printer(), guardNoun(), rows)
		},
	}
}

func guardNoun() output.Noun[*structpb.Struct] {
	share := func(key string) func(*structpb.Struct) string {
		return func(s *structpb.Struct) string { return fmt.Sprintf("%.3f", s.GetFields()[key].GetNumberValue()) }
	}
	verdict := func(s *structpb.Struct) string { return s.GetFields()["verdict"].GetStringValue() }
	return output.Noun[*structpb.Struct]{
		Name: verdict,
		Columns: []output.Column[*structpb.Struct]{
			{Header: "verdict", Value: verdict},
			{Header: "traces", Value: func(s *structpb.Struct) string { return fmt.Sprint(s.GetFields()["traces"].GetNumberValue()) }},
			{Header: "precision", Value: share("precision")},
			{Header: "recall", Value: share("recall")},
			{Header: "judged wrong", Value: func(s *structpb.Struct) string {
				var names []string
				for _, v := range s.GetFields()["wrong"].GetListValue().GetValues() {
					names = append(names, v.GetStringValue())
				}
				return strings.Join(names, " ")
			}, Max: 60},
		},
	}
}
