package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/file"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func artifactsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "artifacts TASK", Short: "List files that a task received from other tasks or sent to them",
		Example: "deckhand task artifacts task_3q9",
		Args:    env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, file.ArtifactNoun(e), "it was given no files by others, and gave them none", client.Workspaces.ListArtifacts, func(token string) *deckhandv1.ListArtifactsRequest {
				return &deckhandv1.ListArtifactsRequest{TaskId: args[0], PageToken: token}
			}, (*deckhandv1.ListArtifactsResponse).GetTransfers)
		},
	}
}
