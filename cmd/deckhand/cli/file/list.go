package file

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// listOptions are the flags of file list.
type listOptions struct {
	recursive bool
}

func listCommand(e *env.Env, owner, example string) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use: "ls " + strings.ToUpper(owner) + " [PATH]", Short: "List a folder of the workspace",
		Example: fmt.Sprintf("deckhand %s files ls %s input --recursive", owner, example),
		Args:    env.Args(strings.ToUpper(owner), "[PATH]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.ListFilesRequest{Path: env.Optional(args, 1), Recursive: o.recursive}
			if owner == "task" {
				req.Workspace = &deckhandv1.ListFilesRequest_TaskId{TaskId: args[0]}
			} else {
				req.Workspace = &deckhandv1.ListFilesRequest_AgentId{AgentId: args[0]}
			}
			return List(cmd.Context(), e, req)
		},
	}
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "list the folders inside too")
	return cmd
}

// List shows a folder of a workspace.
func List(ctx context.Context, e *env.Env, req *deckhandv1.ListFilesRequest) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	res, err := client.Files.ListFiles(ctx, req)
	if err != nil {
		return err
	}
	if len(res.GetFiles()) == 0 {
		e.Notef("the folder is empty")
	}
	if res.GetTruncated() {
		e.Notef("there is more than is shown: list a folder further down")
	}
	return output.List(e.Printer(), fileNoun(), res.GetFiles())
}
