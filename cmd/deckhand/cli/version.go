package cli

import (
	"runtime"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/version"
)

func versionCommand(e *env.Env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version", Example: "deckhand version --json",
		Args: env.Args(),
		RunE: func(*cobra.Command, []string) error {
			build, err := structpb.NewStruct(map[string]any{
				"version": version.Version, "commit": version.Commit, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			})
			if err != nil {
				return err
			}
			if asJSON {
				e.Format = output.JSON
			}
			return output.One(e.Printer(), versionNoun, build)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as -o json")
	return cmd
}

var versionNoun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["version"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		{Header: "version", Value: func(s *structpb.Struct) string { return s.GetFields()["version"].GetStringValue() }},
		{Header: "go", Value: func(s *structpb.Struct) string { return s.GetFields()["go"].GetStringValue() }},
		{Header: "platform", Value: func(s *structpb.Struct) string { return s.GetFields()["platform"].GetStringValue() }},
	},
}
