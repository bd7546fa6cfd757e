package hubcontext

import (
	"github.com/spf13/cobra"

	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
)

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts", Example: "deckhand context list",
		Args: env.Args(),
		RunE: func(*cobra.Command, []string) error { return list(e) },
	}
}

func list(e *env.Env) error {
	all, err := env.LoadContexts()
	if err != nil {
		return err
	}
	if len(all.Contexts) == 0 {
		e.Notef("no contexts yet; make one: deckhand context use NAME --hub URL --token TOKEN")
	}
	var items []*structpb.Struct
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		item, err := structpb.NewStruct(map[string]any{
			"name": name, "current": name == all.Current,
			"hubUrl": all.Contexts[name].HubURL, "hasToken": all.Contexts[name].Token != "",
		})
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return output.List(e.Printer(), noun, items)
}

var noun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		{Header: "current", Value: func(s *structpb.Struct) string {
			if s.GetFields()["current"].GetBoolValue() {
				return "*"
			}
			return " "
		}},
		{Header: "name", Value: func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() }},
		{Header: "hub", Value: func(s *structpb.Struct) string { return s.GetFields()["hubUrl"].GetStringValue() }},
	},
}
