package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/hub/policy/corpus"
	"github.com/deckhand-sh/deckhand/internal/literal"
)

// maxCorpus is how large a file of cases may be.
const maxCorpus = 16 << 20

// corpusOptions are the flags of policy corpus.
type corpusOptions struct {
	asJSON bool
	wrong  bool
	// limits are the percentages of wrong cases that may be.
	limits map[corpus.Class]*float64
}

func corpusCommand(e *env.Env) *cobra.Command {
	flags := corpusOptions{limits: map[corpus.Class]*float64{}}
	cmd := &cobra.Command{
		Use: "corpus [FILE...]", Short: "Measure false negatives and false positives of the policy's command analysis",
		Long: `Decides a set of commands as the calls of a task, by the default policy or by the
policy that a case names, and counts per class: evasions and sequences that pass
without being asked about, and everyday commands that are asked about. Nothing is
run, and no hub is needed. Without FILE it takes the set that comes with Deckhand.

FILE is YAML: the keys evasion, sequence and everyday, each a list of cases with
does or from, script or steps, and policy. The exit status is 1 where a share is
over its limit, in percent.`,
		Example: `deckhand policy corpus
deckhand policy corpus --wrong
deckhand policy corpus mine.yaml --max-evasions 30 --max-everyday 4 --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, files []string) error {
			cases, err := readCases(files)
			if err != nil {
				return err
			}
			outcomes, err := corpus.Run(cases)
			if err != nil {
				return err
			}
			if flags.asJSON {
				e.Format = "json"
			}
			var rows []*structpb.Struct
			var over []string
			for _, s := range corpus.Scores(outcomes) {
				limit := *flags.limits[s.Class]
				row, err := structpb.NewStruct(map[string]any{
					"class": string(s.Class), "cases": s.Cases, "wrong": s.Wrong, "percent": s.Percent, "limit": limit, "cases_wrong": wrongCases(outcomes, s.Class),
				})
				if err != nil {
					return fmt.Errorf("show a score: %w", err)
				}
				rows = append(rows, row)
				if s.Percent > limit {
					over = append(over, fmt.Sprintf("%.1f %% of the %s cases, and %g %% is the limit", s.Percent, s.Class, limit))
				}
			}
			if err := output.List(e.Printer(), scoreNoun(), rows); err != nil {
				return err
			}
			if flags.wrong {
				for _, o := range outcomes {
					if o.Wrong() {
						e.Notef("%s: %s", o.Class, literal.Line(wrongCase(o)))
					}
				}
			}
			if len(over) > 0 {
				return errors.New("the reading is over a limit: " + strings.Join(over, "; "))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "the same as --output json")
	cmd.Flags().BoolVar(&flags.wrong, "wrong", false, "name each case that is not as it should be, on standard error")
	for class, flag := range map[corpus.Class]struct {
		name, usage string
		most        float64
	}{
		corpus.Evasion:  {"max-evasions", "how many percent of the evasions may pass", 30},
		corpus.Sequence: {"max-sequences", "how many percent of the sequences may pass", 30},
		corpus.Everyday: {"max-everyday", "how many percent of the everyday commands may be asked about", 4},
	} {
		flags.limits[class] = cmd.Flags().Float64(flag.name, flag.most, flag.usage)
	}
	return cmd
}

// readCases returns the cases of files, or those that come with Deckhand.
func readCases(files []string) ([]corpus.Case, error) {
	if len(files) == 0 {
		return corpus.Own()
	}
	var cases []corpus.Case
	for _, file := range files {
		data, err := env.ReadBounded(file, maxCorpus)
		if err != nil {
			return nil, err
		}
		more, err := corpus.Read(file, data)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	return cases, nil
}

func wrongCases(outcomes []corpus.Outcome, class corpus.Class) []any {
	var out []any
	for _, o := range outcomes {
		if o.Class == class && o.Wrong() {
			out = append(out, wrongCase(o))
		}
	}
	return out
}

func wrongCase(o corpus.Outcome) string {
	if o.Stopped {
		return o.Name() + ": " + o.Decision.Why + ": " + o.Script
	}
	return o.Name() + ": it passes"
}

func scoreNoun() output.Noun[*structpb.Struct] {
	field := func(key, format string) func(*structpb.Struct) string {
		return func(s *structpb.Struct) string { return fmt.Sprintf(format, s.GetFields()[key].GetNumberValue()) }
	}
	class := func(s *structpb.Struct) string { return s.GetFields()["class"].GetStringValue() }
	return output.Noun[*structpb.Struct]{
		Name: class,
		Columns: []output.Column[*structpb.Struct]{
			{Header: "class", Value: class},
			{Header: "cases", Value: field("cases", "%.0f")},
			{Header: "wrong", Value: func(s *structpb.Struct) string {
				what := " pass"
				if class(s) == string(corpus.Everyday) {
					what = " asked about"
				}
				return field("wrong", "%.0f")(s) + what
			}},
			{Header: "percent", Value: field("percent", "%.1f")},
			{Header: "limit", Value: field("limit", "%g")},
		},
	}
}
