package file

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func watchCommand(e *env.Env, owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "watch " + strings.ToUpper(owner) + " [PATH]", Short: "Show file changes, live",
		Example: fmt.Sprintf("deckhand %s files watch %s src", owner, example),
		Args:    env.Args(strings.ToUpper(owner), "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			req := &deckhandv1.WatchFilesRequest{Path: env.Optional(args, 1), Workspace: &deckhandv1.WatchFilesRequest_AgentId{AgentId: args[0]}}
			if owner == "task" {
				req.Workspace = &deckhandv1.WatchFilesRequest_TaskId{TaskId: args[0]}
			}
			stream, err := client.Files.WatchFiles(cmd.Context(), req)
			if err != nil {
				return err
			}
			defer stream.Close()
			for stream.Receive() {
				for _, x := range stream.Msg().GetEvents() {
					fmt.Fprintf(e.Out, "%-7s %s\n", x.GetWhat(), termsafe.Line(x.GetPath()))
				}
				if stream.Msg().GetOverflow() {
					e.Notef("more changed than can be told: list the folder")
				}
			}
			return stream.Err()
		},
	}
}
